"""One random stream per environment, inside the compiled kernels.

The generator is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 2021),
four 64-bit words per environment. The words are derived with splitmix64's mixing function (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", OOPSLA 2014) from a key that ``numpy.random.SeedSequence`` gives and
from the environment's index, so that a stream depends on the seed and the index alone, never on how many environments
there are beside it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def mix64(word):
    """Return splitmix64's mixing of one uint64: a bijection in which every output bit depends on every input bit."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True, nogil=True)
def seed_streams(key, mask, streams):
    """Start the streams of the environments in ``mask``.

    Parameters: ``key`` uint64 (2,); ``mask`` bool (M, E); ``streams`` uint64 (M, E, 4), written in place.
    """
    for task in range(streams.shape[0]):
        for env in range(streams.shape[1]):
            if not mask[task, env]:
                continue
            word = mix64(key[0] + GOLDEN_GAMMA * np.uint64(task + 1))
            word = mix64(word ^ (key[1] + GOLDEN_GAMMA * np.uint64(env + 1)))
            for index in range(4):
                word += GOLDEN_GAMMA
                streams[task, env, index] = mix64(word)


@njit(cache=True, nogil=True)
def next_words(a, b, c, d):
    """Return 64 random bits (xoshiro256++) and the four words of the advanced stream."""
    total = a + d
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    return result, a, b, c, (d << np.uint64(45)) | (d >> np.uint64(19))


@njit(cache=True, nogil=True)
def next_uint64(stream):
    """Advance one stream (uint64 (4,)) and return 64 random bits."""
    result, stream[0], stream[1], stream[2], stream[3] = next_words(stream[0], stream[1], stream[2], stream[3])
    return result


@njit(cache=True, nogil=True, inline="always")
def to_unit_interval(bits):
    """Return 64 random bits as a float64 uniform on [0, 1) with 53 random bits."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True, inline="always")
def uniform(stream):
    """Return a float64 uniform on [0, 1)."""
    return to_unit_interval(next_uint64(stream))


@njit(cache=True, nogil=True)
def to_below(bits, bound):
    """Return 64 random bits as an int64 uniform on 0 … bound-1, for bounds below 2^31 (bias at most bound / 2^32)."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))
