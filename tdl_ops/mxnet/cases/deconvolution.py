from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import single

DECONVOLUTIONS = [
    ({"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 5}, [(3, 5, 5, 4), (5, 5, 4, 4)]),
    ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "adj": (1, 1), "num_filter": 3}, [(3, 2, 5, 4), (2, 3, 3, 3)]),
    ({"kernel": (3, 3), "num_group": 3, "num_filter": 6}, [(3, 6, 5, 4), (6, 2, 3, 3)]),
    ({"kernel": 3, "dilate": 2, "num_filter": 5}, [(3, 3, 5), (3, 5, 3)]),
    (
        {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "num_filter": 4, "no_bias": False},
        [(3, 5, 3, 4), (5, 4, 3, 2), (4,)],
    ),
    ({"kernel": (2,), "num_group": 3, "num_filter": 6, "no_bias": False}, [(3, 6, 5), (6, 2, 2), (6,)]),
]
# oneDNN's single-precision kernels reject target_shape.
TARGETS = [
    ({"kernel": (4, 3), "stride": (2, 3), "target_shape": (10, 12), "num_filter": 3}, [(4, 2, 5, 4), (2, 3, 4, 3)]),
    ({"kernel": (4, 3), "stride": (2, 3), "target_shape": (9, 11), "num_filter": 3}, [(4, 2, 5, 4), (2, 3, 4, 3)]),
    (
        {"kernel": (3,), "stride": (2,), "target_shape": (9,), "num_filter": 4, "no_bias": False},
        [(3, 5, 5), (5, 4, 3), (4,)],
    ),
]
BORDERS = {"stride": (2, 1, 2), "pad": (0, 1, 1), "adj": (1, 0, 1)}
# In three dimensions, MXNet's kernels have single precision only.
THREE_DIMENSIONS = [
    (
        {"kernel": (2, 2, 3), **BORDERS, "num_filter": 4, "no_bias": False},
        [single(3, 5, 3, 3, 4), single(5, 4, 2, 2, 3), single(4)],
    ),
    ({"kernel": (2, 3, 2), "num_group": 3, "num_filter": 6}, [single(3, 6, 3, 4, 3), single(6, 2, 2, 3, 2)]),
    ({"kernel": (1, 1, 1), "num_filter": 4}, [single(3, 5, 3, 2, 4), single(5, 4, 1, 1, 1)]),
]

CASES = [
    *(Case("Deconvolution", attributes, inputs) for attributes, inputs in DECONVOLUTIONS),
    *(Case("Deconvolution", attributes, inputs, double=tuple(range(len(inputs)))) for attributes, inputs in TARGETS),
    *(Case("Deconvolution", attributes, inputs) for attributes, inputs in THREE_DIMENSIONS),
]
