"""Arrays for the kernels, each kind made in one place.

numba compiles a function anew for every combination of argument types, and a literal number is a type of its own: hence
``ZERO`` and the like instead of 0 where a number is handed to another kernel.
"""

import numpy as np
from numba import njit

ZERO = np.int64(0)
ONE = np.int64(1)


@njit(cache=True, nogil=True)
def words(size):
    """(size,) int64, not initialised."""
    return np.empty(size, np.int64)


@njit(cache=True, nogil=True)
def short_words(size):
    """(size,) uint16, not initialised."""
    return np.empty(size, np.uint16)


@njit(cache=True, nogil=True)
def flags(size):
    """(size,) bool, all False."""
    array = np.empty(size, np.bool_)
    for i in range(size):
        array[i] = False
    return array


@njit(cache=True, nogil=True)
def rows_of(height):
    """(height + 3,) uint64, all 0: a set of cells as `metapcg.games.bitrows` keeps it."""
    array = np.empty(height + 3, np.uint64)
    for y in range(height + 3):
        array[y] = 0
    return array
