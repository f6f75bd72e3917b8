"""How far numbers are apart, and what a kernel that leaves no number in a part is called."""

import numpy as np
import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import Combine, InputAccess, OutputAccess, Row, analyse
from tofu.mxnet.verify.nodes import Node
from tofu.mxnet.verify.operators import verify_operator
from tofu.verification.split import SplitError, combine_outputs, cut_input, relative_error

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("value", "reference", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 5.0], [1.0, 4.0], 0.25),
        ([NAN, INF], [NAN, INF], 0.0),
        ([NAN, 2.0], [1.0, 2.0], INF),
        ([1.0, 2.0], [1.0, NAN], INF),
        ([-INF, 2.0], [INF, 2.0], INF),
        ([1.0], [1.0, 1.0], INF),
    ],
)
def test_errors_are_numbers_that_can_be_compared(value, reference, error):
    found = relative_error(np.array(value), np.array(reference))
    assert max(0.0, found) == pytest.approx(error)


def test_parts_without_numbers_are_a_problem(monkeypatch):
    """Each part is of no number in its first cell, the whole is right."""
    run = Node.run

    def spoil(node, *arguments):
        outputs, after = run(node, *arguments)
        for output in outputs:
            output.flat[0] = NAN
        return outputs, after

    monkeypatch.setattr(Node, "run", spoil)
    report = verify_operator("tanh", {}, [(5, 7)], wrt=())
    assert list(report.problems) == [f"tanh, split i{axis}: the parts are off by inf" for axis in (0, 1)]


def test_what_is_said_not_to_be_read_is_no_number():
    """So that a kernel that reads it is found out, though it may multiply by zero."""
    access = InputAccess((Row(((0, 1),), 0, 1),), (), 0.0, is_read=False)
    assert np.isnan(cut_input(np.ones(6), access, {0: (2, 5)}, (6,))).tolist() == [True] * 3


def test_parts_that_two_of_them_write():
    """Each writes its cells and the next one."""
    written = OutputAccess((Row(((0, 1),), 0, 2),), (Combine.CONCAT,), is_written=True)
    whole = analyse(DESCRIPTIONS["tanh"], {}, [(4,)], [(4,)])
    with pytest.raises(SplitError, match="write 1 cells twice"):
        combine_outputs([np.ones(3), np.ones(3)], written, {0: [(0, 2), (2, 4)]}, whole, (5,))
