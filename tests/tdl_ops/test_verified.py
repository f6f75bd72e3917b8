"""Compare the numbers of every described operator with MXNet, and each strategy in uneven parts."""

from contextlib import suppress
from dataclasses import replace

import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.case import Case
from tofu.mxnet.lowerings.joins import JOIN
from tofu.mxnet.verify.cases import load_cases, verify_case
from tofu.mxnet.verify.nodes import list_operators
from tofu.verification.numbers import labels

# These gradients return the elements that were not chosen.
MXNET_IS_WRONG = {"_backward_np_where_lscalar", "_backward_np_where_rscalar"}


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_description_and_strategies_agree_with_mxnet(case):
    for dtype, parts in (("float64", 2), ("float32", 3)):
        report = verify_case(case, dtype, parts=(parts,))
        assert report.is_verified, report


FURTHER = [
    Case("argmax", {"axis": 0}, [(5,)], wrt=()),
    Case("argmin", {"axis": 0, "keepdims": True}, [(5,)], wrt=()),
    Case("_np_roll", {"shift": (-4,)}, [(3, 5)]),
    Case("_np_sum", {"axis": ()}, [(3, 5)]),
    Case("_np_max", {"axis": (), "keepdims": True}, [(3, 5)]),
    Case("gather_nd", {}, [(4, 3), labels(4, 1, 6)], wrt=(0,)),
]
"""Signatures beyond the built-in cases, from which random models are drawn by number."""


@pytest.mark.parametrize("case", FURTHER, ids=str)
def test_further_signatures_agree_with_mxnet(case):
    report = verify_case(case, parts=(2, 3))
    assert report.is_verified, report


def test_every_description_has_a_case():
    verified = {operator for case in load_cases() for operator in find_operators(case)}
    assert set(DESCRIPTIONS) - verified == {JOIN}  # it has no kernel


def test_all_gradients_are_described():
    operators = set()
    for case in load_cases():
        for wrt in (None, *((n,) for n in range(len(case.inputs)))):
            with suppress(RuntimeError):
                operators |= find_operators(replace(case, wrt=wrt))
    assert len(operators) > 400
    assert operators - set(DESCRIPTIONS) == MXNET_IS_WRONG


def find_operators(case):
    attributes = {name: str(value) for name, value in case.attributes.items()}
    return list_operators(case.op, attributes, len(case.inputs), case.wrt)
