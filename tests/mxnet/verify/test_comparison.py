"""What counts as compared: whatever a kernel gives, somebody has to notice when it gives something else."""

from dataclasses import replace

import numpy as np
import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify import Case, load_cases, nodes, single, verify_case
from tofu.mxnet.verify.kernels import PATTERNS, find_left, run_kernel
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
def test_each_way_to_compare_is_told_apart(case, op, kind):
    node = find_node(verify_case(case), op)
    assert node.kind is kind
    assert node.compared_outputs >= set(node.outputs)


def test_a_relation_that_gives_back_what_it_was_given_compares_nothing():
    case = replace(find_case(DROPOUT), relations={DROPOUT: lambda inputs, outputs: outputs})
    report = verify_case(case)
    assert "Dropout: output 0 is compared with nothing: the relation holds whatever it is" in report.problems
    assert find_node(report, DROPOUT).kind is Compared.NOTHING


def test_a_relation_that_forgets_an_output_is_a_problem():
    case = replace(
        find_case(DROPOUT), relations={DROPOUT: lambda inputs, outputs: [outputs[0], 2.0 * (outputs[1] > 1)]}
    )
    assert any("output 0 is compared with nothing" in problem for problem in verify_case(case).problems)


def change_outputs(monkeypatch, op, number, change):
    """Has the kernel of `op` give something else in one output."""

    def run_changed(name, attributes, inputs, shapes, dtypes, pattern=0):
        outputs, after = run_kernel(name, attributes, inputs, shapes, dtypes, pattern)
        if name == op:
            outputs[number] = change(outputs[number])
        return outputs, after

    monkeypatch.setattr(nodes, "run_kernel", run_changed)


def another_cell(array):
    changed = array.copy()
    changed.reshape(-1)[-1] = 3 * np.nanmax(np.abs(array), initial=1) + 5
    return changed


@pytest.mark.parametrize(
    ("op", "number"),
    [("tanh", 0), (DROPOUT, 0), (DROPOUT, 1), (MULTINOMIAL, 0), (MULTINOMIAL, 1), (LRN, 0), (LRN, 1), ("CTCLoss", 1)],
)
def test_a_kernel_that_gives_another_number_is_noticed(op, number, monkeypatch):
    case = Case("tanh", {}, [(5, 7)]) if op == "tanh" else find_case(op)
    assert verify_case(case).problems == ()
    change_outputs(monkeypatch, op, number, another_cell)
    assert verify_case(case).problems != ()


def test_a_kernel_that_leaves_a_cell_is_noticed_where_no_number_is_expected(monkeypatch):
    """The logarithm of a negative number is none, and so is memory that was filled with it."""
    case = Case("log", {}, [(5, 7)], wrt=())
    assert verify_case(case).problems == ()

    def leave_last_cell(name, attributes, inputs, shapes, dtypes, pattern=0):
        outputs, after = run_kernel(name, attributes, inputs, shapes, dtypes, pattern)
        outputs[0][:, -1] = PATTERNS["f"][pattern]
        return outputs, after

    monkeypatch.setattr(nodes, "run_kernel", leave_last_cell)
    assert "log: output 0: the kernel does not write 5 of 35 elements" in verify_case(case).problems


def test_a_kernel_that_changes_what_it_reads_is_noticed(monkeypatch):
    """Execution graphs give such a kernel a copy of its own, where they know of it."""
    case = find_case("_adamw_update")
    assert verify_case(case).problems == ()
    monkeypatch.setattr(nodes._mxnet, "overwritten_inputs", lambda op, attributes: [])
    assert any(
        "_adamw_update: the kernel changes input 1, which other operators may" in one
        for one in verify_case(case).problems
    )


def test_a_gradient_that_changes_what_its_forward_operator_has_left_is_noticed(monkeypatch):
    """It gives other numbers when it is run again."""
    case = find_case("SpatialTransformer")
    assert verify_case(case).problems == ()
    monkeypatch.setattr(nodes._mxnet, "overwritten_inputs", lambda op, attributes: [])
    said = "_backward_SpatialTransformer: the kernel changes input 2, which other operators may"
    assert any(said in one for one in verify_case(case).problems)


def test_scratch_is_neither_compared_nor_missed(descriptions):
    """oneDNN's places of the largest cells: a byte each, in the first quarter of an int32 tensor."""
    case = Case("Pooling", {"kernel": (2,), "pool_type": "max"}, [single(3, 5, 6)])
    report = verify_case(case)
    assert report.problems == ()
    assert find_node(report, "Pooling").outputs == (0,)
    right = DESCRIPTIONS["Pooling"]
    falsely = lambda *data, **given: (right.function(*data, **given)[0], unwritten("b c *y"))  # noqa: E731
    silent = replace(right, function=falsely, cache={})
    descriptions["Pooling"] = silent
    assert any("output 1 is called unwritten, but the kernel writes" in one for one in verify_case(case).problems)


def test_what_is_left_keeps_both_patterns():
    left, written = [np.array([PATTERNS["f"][n], 1.0]) for n in range(2)], [np.array([0, 85]), np.array([0, 7])]
    assert [one.tolist() for one in find_left([left[0], written[0]], [left[1], written[1]])] == [
        [True, False],
        [False, False],
    ]


def test_cells_without_a_number_count_for_nothing():
    none = np.full(5, np.nan)
    assert count_numbers(none, none) == 0
    assert count_numbers(np.zeros(5), none) == 5
    assert find_kind([Comparison(0, Compared.NUMBERS, 0)]) is Compared.NOTHING
    assert find_kind([Comparison(0, Compared.NUMBERS, 3), Comparison(1, Compared.PARTS, 3)]) is Compared.PARTS
    assert find_kind([Comparison(0, Compared.NUMBERS, 3), Comparison(1, Compared.UNWRITTEN, 3)]) is Compared.NUMBERS
