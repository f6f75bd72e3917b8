import re

from tofu.mxnet.verify import verify_operator


def test_reports_print_each_strategy(check_golden):
    text = repr(verify_operator("FullyConnected", {"num_hidden": 5}, [(4, 6), (5, 6), (5,)]))
    text = re.sub(r"description error \S+", "description error E", text)
    check_golden("verified.txt", re.sub(r"error \de-\d+|bitwise equal", "S", text) + "\n")


def test_extents_limit_the_number_of_parts():
    report = verify_operator("tanh", {}, [(2, 3)], parts=(2, 3), wrt=())
    assert [strategy.parts for strategy in report.nodes[0].strategies] == [(2,), (2, 3)]


def test_rejected_axes_keep_their_reasons():
    report = verify_operator("softmax", {}, [(4, 5)], wrt=())
    assert dict(report.nodes[0].rejected).keys() == {"i1", "k"}
