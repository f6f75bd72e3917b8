from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import labels

CASES = [Case("softmax_cross_entropy", {}, [(5, 7), labels(7, 5)], wrt=(0,))]
