import re

import numpy as np
import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import Combine, InputAccess, OutputAccess, Row, analyse
from tofu.mxnet.verify.kernels import run_kernel
from tofu.mxnet.verify.nodes import VerifiedNode
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
def test_relative_errors(value, reference, error):
    found = relative_error(np.array(value), np.array(reference))
    assert max(0.0, found) == pytest.approx(error)


def test_nan_in_parts_is_a_problem(monkeypatch):
    run = VerifiedNode.run

    def spoil(node, *arguments):
        outputs, after = run(node, *arguments)
        for output in outputs:
            output.flat[0] = NAN
        return outputs, after

    monkeypatch.setattr(VerifiedNode, "run", spoil)
    report = verify_operator("tanh", {}, [(5, 7)], wrt=())
    assert list(report.problems) == [f"tanh, split i{axis}: the parts are off by inf" for axis in (0, 1)]


def test_inputs_described_as_unread_are_nan():
    """A kernel that reads the input is found, even if it multiplies it by zero."""
    access = InputAccess((Row(((0, 1),), 0, 1),), (), 0.0, is_read=False)
    assert np.isnan(cut_input(np.ones(6), access, {0: (2, 5)}, (6,))).tolist() == [True] * 3


def test_elements_written_by_two_parts():
    written = OutputAccess((Row(((0, 1),), 0, 2),), (Combine.CONCAT,), is_written=True)
    whole = analyse(DESCRIPTIONS["tanh"], {}, [(4,)], [(4,)])
    with pytest.raises(SplitError, match="write 1 elements twice"):
        combine_outputs([np.ones(3), np.ones(3)], written, {0: [(0, 2), (2, 4)]}, whole, (5,))


def test_a_kernel_that_writes_behind_an_output_is_found():
    """The kernel takes its size from an input. On a worker, another array may follow the output."""
    whole = np.ones((6, 4))
    with pytest.raises(RuntimeError, match=r"writes behind output 0 of _backward_where, of shape \(3, 4\)"):
        run_kernel("_backward_where", {}, [whole, whole], [(3, 4)] * 2, ["float64"] * 2)


def test_a_gradient_of_other_shapes_than_its_operator_is_a_problem(descriptions):
    """Here the kernel gets its operator's shapes; on workers, it gets the shapes of its description."""
    name = "_backward_npi_einsum"
    arguments = "_npi_einsum", {"num_args": 1, "subscripts": "ij->ij"}, [(5, 7)]
    assert verify_operator(*arguments).is_verified
    unnamed = lambda d_out, data, *, subscripts: lambda i, j: d_out[i, j]  # noqa: E731
    descriptions[name] = DESCRIPTIONS.describe(unnamed, (name,))
    found = verify_operator(*arguments).problems[0]
    assert re.search(r"_backward_npi_einsum, split i: .*input 1 has a region of shape \(5, 7\)", found)
