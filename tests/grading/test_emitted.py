"""The trusted comparison: what differs is a fault, whatever it is made of; what agrees is none."""

import math

import pytest
import torch

from metapcg.grading.emitted import compare
from metapcg.learning.checks import collect_emitted, emit


def emitted(*values, hint="Look at the sign."):
    with collect_emitted() as records:
        for number, value in enumerate(values):
            emit(f"value {number}", value, hint)
    return records


RIGHT = (torch.tensor([[1.0, -2.0], [0.0, 1e6]]), 3, 0.5, True, "word", None, [1, (2.0, "a")], {"x": torch.ones(2)})


def test_equal_values_have_no_fault():
    assert compare(emitted(*RIGHT), emitted(*RIGHT)) == []


def test_rounding_is_no_fault_and_more_is():
    right = emitted(torch.tensor([1.0, 1000.0]))
    assert compare(emitted(torch.tensor([1.0005, 1000.0])), right) == []  # against the largest entry
    assert compare(emitted(torch.tensor([1.0, 1000.01])), right) == ["value 0: wrong values. Look at the sign."]


@pytest.mark.parametrize(
    ("got", "right", "fault"),
    [
        (torch.ones(3), torch.ones(1, 3), "the shape is wrong"),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), "the dtype is wrong"),
        (torch.full((2,), math.nan), torch.ones(2), "wrong values"),
        (torch.ones(2), torch.full((2,), math.nan), "wrong values"),
        (math.nan, 1.0, "wrong value"),
        (1.0, math.inf, "wrong value"),
        (1, True, "wrong value"),
        ("1.0", 1.0, "wrong value"),
        ([1.0], 1.0, "wrong value"),
        (10**400, 1.0, "wrong value"),
        ([1.0, 2.0], [1.0], "a sequence of another length was expected"),
        ({"a": 1}, {"a": 1, "b": 2}, "the dictionary has other keys"),
        (1.0, torch.tensor(1.0), "a tensor was expected"),
        (None, 1.0, "wrong value"),
    ],
)
def test_difference_is_named_without_numbers(got, right, fault):
    (line,) = compare(emitted(got), emitted(right))
    assert line == f"value 0: {fault}. Look at the sign."


def test_nan_and_infinity_are_right_where_the_worked_solution_has_them():
    values = (torch.tensor([math.nan, 1.0]), math.inf, -math.inf)
    assert compare(emitted(*values), emitted(*values)) == []
    assert len(compare(emitted(torch.tensor([1.0, 1.0]), -math.inf, math.inf), emitted(*values))) == 3


def test_missing_swapped_and_additional_results_are_faults():
    right = emitted(1.0, 2.0)
    assert compare([], right) == ["value 0: not reached, the cell ended before it."]
    assert compare(right[:1], right) == ["value 1: not reached, the cell ended before it."]
    assert compare(right[::-1], right) == ["value 0: another result stands in its place."]
    assert compare([*right, right[0]], right) == ["1 more results than the tests have."]


@pytest.mark.parametrize(
    "forged",
    [
        "no record",
        {},
        {"what": "value 0"},
        {"what": "value 0", "value": {"tensor": "float32", "shape": [2], "entries": [1.0]}},
        {"what": "value 0", "value": {"tensor": "float32", "shape": [2], "entries": None}},
        {"what": "value 0", "value": {"tensor": "float32", "shape": [2], "entries": [True, "x"]}},
        {"what": ["value 0"], "value": 1},
    ],
)
def test_forged_records_are_faults(forged):
    assert compare([forged], emitted(torch.ones(2)))
