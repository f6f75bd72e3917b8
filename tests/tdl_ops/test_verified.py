"""Every described operator against MXNet: its numbers, and each strategy at 2 and 3 uneven parts; with oneDNN's kernels, at 3."""

from contextlib import suppress
from dataclasses import replace

import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify.cases import load_cases, verify_case
from tofu.mxnet.verify.nodes import execute_training_graph, list_operators

# They give the cells that were not chosen.
MXNET_IS_WRONG = {"_backward_np_where_lscalar", "_backward_np_where_rscalar"}


@pytest.mark.parametrize(("dtype", "parts"), [("float64", (2, 3)), ("float32", (3,))], ids=["float64", "float32"])
@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_description_and_strategies_agree_with_mxnet(case, dtype, parts):
    report = verify_case(case, dtype, parts=parts)
    assert report.is_verified, report


def test_every_description_has_a_case():
    verified = {operator for case in load_cases() for operator in operators_of(case)}
    assert set(DESCRIPTIONS) - verified == set()


def test_operators_are_known_without_running_them():
    for case in load_cases()[::40]:
        texts = {name: str(value) for name, value in case.attributes.items()}
        run = execute_training_graph(case.op, texts, case.draw_inputs(), case.wrt, seed=0)
        assert operators_of(case) == {node.op for node in run}, case


def test_gradients_are_described():
    """By all inputs together and by each alone, wherever MXNet has a gradient: also those that no case takes."""
    operators = set()
    for case in load_cases():
        for wrt in (None, *((n,) for n in range(len(case.inputs)))):
            with suppress(RuntimeError):  # states, and operators without a gradient
                operators |= operators_of(replace(case, wrt=wrt))
    assert len(operators) > 400
    assert operators - set(DESCRIPTIONS) == MXNET_IS_WRONG


def operators_of(case):
    attributes = {name: str(value) for name, value in case.attributes.items()}
    return list_operators(case.op, attributes, len(case.inputs), case.wrt)
