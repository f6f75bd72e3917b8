"""What a verification says."""

import re

import pytest

from tofu.mxnet.verify import verify_operator


def test_report_prints_each_strategy(check_golden):
    text = repr(verify_operator("FullyConnected", {"num_hidden": 5}, [(4, 6), (5, 6), (5,)]))
    text = re.sub(r"description error \S+", "description error E", text)
    check_golden("verified.txt", re.sub(r"error \de-\d+|bitwise equal", "S", text) + "\n")


def test_parts_beyond_the_extent_are_left_out():
    report = verify_operator("tanh", {}, [(2, 3)], parts=(2, 3), wrt=())
    assert [strategy.parts for strategy in report.nodes[0].strategies] == [(2,), (2, 3)]


def test_rejected_axes_keep_their_reasons():
    report = verify_operator("softmax", {}, [(4, 5)], wrt=())
    assert dict(report.nodes[0].rejected).keys() == {"i1", "k"}


def test_shapes_that_mxnet_refuses_are_its_own_error():
    with pytest.raises(RuntimeError, match=r"expected \[4,5\], got \[4,6\]"):
        verify_operator("elemwise_add", {}, [(4, 5), (4, 6)])
