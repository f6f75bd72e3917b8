"""What a verification says."""

import re

import pytest

from tofu.mxnet.verify import verify_operator

EXPECTED = """\
FullyConnected(num_hidden=5) on (4, 6), (5, 6), (5,)
  FullyConnected: description error E
    split b      in 2, 3, 4: CONCAT, S
    split h      in 2, 3, 4: CONCAT, S
    split k0     in 2, 3, 4: REDUCE, S
  _backward_FullyConnected: description error E
    split b      in 2, 3, 4: CONCAT REDUCE REDUCE, S
    split k0     in 2, 3, 4: CONCAT CONCAT REPLICATE, S
    split h      in 2, 3, 4: REDUCE CONCAT CONCAT, S"""


def test_report_prints_each_strategy():
    text = repr(verify_operator("FullyConnected", {"num_hidden": 5}, [(4, 6), (5, 6), (5,)]))
    text = re.sub(r"description error \S+", "description error E", text)
    assert re.sub(r"error \de-\d+|bitwise equal", "S", text) == EXPECTED


def test_parts_beyond_the_extent_are_left_out():
    report = verify_operator("tanh", {}, [(2, 3)], parts=(2, 3), wrt=())
    assert [strategy.parts for strategy in report.nodes[0].strategies] == [(2,), (2, 3)]


def test_rejected_axes_keep_their_reasons():
    report = verify_operator("softmax", {}, [(4, 5)], wrt=())
    assert dict(report.nodes[0].rejected).keys() == {"i1", "k"}


def test_shapes_that_mxnet_refuses_are_its_own_error():
    with pytest.raises(RuntimeError, match=r"expected \[4,5\], got \[4,6\]"):
        verify_operator("elemwise_add", {}, [(4, 5), (4, 6)])
