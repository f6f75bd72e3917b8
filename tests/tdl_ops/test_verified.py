"""Every described operator against MXNet: its numbers, and each of its strategies at 2, 3 and 4 uneven parts."""

import pytest

import tofu.tdl
from tofu.verify.case import verify_case
from tofu.verify.cases import load_cases
from tofu.verify.nodes import execute_training_graph, list_operators


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_description_and_strategies_agree_with_mxnet(case, dtype):
    report = verify_case(case, dtype)
    assert report.is_verified, report


def test_every_description_has_a_case():
    verified = {operator for case in load_cases() for operator in operators_of(case)}
    assert set(tofu.tdl.registered()) - verified == set()


def test_operators_are_known_without_running_them():
    for case in load_cases()[::40]:
        texts = {name: str(value) for name, value in case.attributes.items()}
        run = execute_training_graph(case.op, texts, case.draw_inputs(), case.wrt, seed=0)
        assert operators_of(case) == {node.op for node in run}, case


def operators_of(case):
    attributes = {name: str(value) for name, value in case.attributes.items()}
    return list_operators(case.op, attributes, len(case.inputs), case.wrt)
