"""Verification compares every number that a kernel writes, so that any change is found."""

from dataclasses import replace

import numpy as np
import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify import Case, nodes, single, verify_case
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.kernels import PATTERNS, run_kernel
from tofu.tdl import unwritten
from tofu.verification.comparison import Compared, Comparison, count_numbers, find_kind

DROPOUT, LRN, PROPOSAL, MULTINOMIAL = "Dropout", "LRN", "_contrib_MultiProposal", "_sample_multinomial"


def find_case(op):
    return next(case for case in load_cases() if case.op == op)


def find_node(report, op):
    return next(node for node in report.nodes if node.op == op)


@pytest.mark.parametrize(
    ("case", "op", "kind"),
    [
        (Case("tanh", {}, [(5, 7)]), "tanh", Compared.NUMBERS),
        (find_case(DROPOUT), "_backward_Dropout", Compared.RELATION),
        (find_case("RNN"), "RNN", Compared.PARTS),
        (find_case(PROPOSAL), f"_backward_{PROPOSAL}", Compared.UNWRITTEN),
    ],
)
def test_each_kind_of_comparison(case, op, kind):
    node = find_node(verify_case(case), op)
    assert node.kind is kind
    assert node.compared_outputs >= set(node.outputs)


@pytest.mark.parametrize(
    "relation", [lambda inputs, outputs: outputs, lambda inputs, outputs: [outputs[0], 2.0 * (outputs[1] > 1)]]
)
def test_a_relation_that_returns_its_input_compares_nothing(relation):
    problems = verify_case(replace(find_case(DROPOUT), relations={DROPOUT: relation})).problems
    assert "Dropout: output 0 is compared with nothing: the relation holds whatever it is" in problems


def change_outputs(monkeypatch, op, number, change):

    def run_changed(name, attributes, inputs, shapes, dtypes, pattern=0):
        outputs, after = run_kernel(name, attributes, inputs, shapes, dtypes, pattern)
        if name == op:
            outputs[number] = change(outputs[number])
        return outputs, after

    monkeypatch.setattr(nodes, "run_kernel", run_changed)


def change_last_element(array):
    changed = array.copy()
    changed.reshape(-1)[-1] = 3 * np.nanmax(np.abs(array), initial=1) + 5
    return changed


@pytest.mark.parametrize(
    ("op", "number"),
    [("tanh", 0), (DROPOUT, 0), (DROPOUT, 1), (MULTINOMIAL, 0), (MULTINOMIAL, 1), (LRN, 0), (LRN, 1), ("CTCLoss", 1)],
)
def test_a_changed_number_is_found(op, number, monkeypatch):
    case = Case("tanh", {}, [(5, 7)]) if op == "tanh" else find_case(op)
    assert verify_case(case).problems == ()
    change_outputs(monkeypatch, op, number, change_last_element)
    assert verify_case(case).problems != ()


def test_an_unwritten_element_is_found_if_nan_is_expected(monkeypatch):
    """The logarithm of a negative number is NaN, and so is the fill of unwritten memory."""
    case = Case("log", {}, [(5, 7)], wrt=())
    assert verify_case(case).problems == ()

    def leave_last_cell(name, attributes, inputs, shapes, dtypes, pattern=0):
        outputs, after = run_kernel(name, attributes, inputs, shapes, dtypes, pattern)
        outputs[0][:, -1] = PATTERNS["f"][pattern]
        return outputs, after

    monkeypatch.setattr(nodes, "run_kernel", leave_last_cell)
    assert "log: output 0: the kernel does not write 5 of 35 elements" in verify_case(case).problems


@pytest.mark.parametrize(
    ("op", "kernel", "number"),
    [("_adamw_update", "_adamw_update", 1), ("SpatialTransformer", "_backward_SpatialTransformer", 2)],
)
def test_a_kernel_that_changes_its_input_is_found(op, kernel, number, monkeypatch):
    """Execution graphs copy the inputs of kernels that are known to change them."""
    case = find_case(op)
    assert verify_case(case).problems == ()
    monkeypatch.setattr(nodes._mxnet, "overwritten_inputs", lambda op, attributes: [])
    message = f"{kernel}: the kernel changes input {number}, which other operators may"
    assert any(message in problem for problem in verify_case(case).problems)


def test_scratch_is_neither_compared_nor_missed(descriptions):
    """oneDNN stores positions of maxima as bytes in the first quarter of an int32 tensor."""
    case = Case("Pooling", {"kernel": (2,), "pool_type": "max"}, [single(3, 5, 6)])
    report = verify_case(case)
    assert report.problems == ()
    assert find_node(report, "Pooling").outputs == (0,)
    right = DESCRIPTIONS["Pooling"]
    falsely = lambda *data, **given: (right.function(*data, **given)[0], unwritten("b c *y"))  # noqa: E731
    silent = replace(right, function=falsely, cache={})
    descriptions["Pooling"] = silent
    assert any(
        "output 1 is called unwritten, but the kernel writes" in problem for problem in verify_case(case).problems
    )


def test_nan_elements_do_not_count():
    none = np.full(5, np.nan)
    assert count_numbers(none, none) == 0
    assert count_numbers(np.zeros(5), none) == 5
    assert find_kind([Comparison(0, Compared.NUMBERS, 0)]) is Compared.NOTHING
    assert find_kind([Comparison(0, Compared.NUMBERS, 3), Comparison(1, Compared.PARTS, 3)]) is Compared.PARTS
    assert find_kind([Comparison(0, Compared.NUMBERS, 3), Comparison(1, Compared.UNWRITTEN, 3)]) is Compared.NUMBERS
