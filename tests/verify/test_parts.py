"""How far numbers are apart, and what a kernel that leaves no number in a part is called."""

import numpy as np
import pytest

from tofu.verify.nodes import Node
from tofu.verify.operators import verify_operator
from tofu.verify.split import relative_error

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
