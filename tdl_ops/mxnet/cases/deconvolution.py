"""Transposed convolutions."""

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import single

CASES = [
    Case(
        "Deconvolution",
        {"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 5},
        [(3, 5, 5, 4), (5, 5, 4, 4)],
    ),
    Case(
        "Deconvolution",
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "adj": (1, 1), "num_filter": 3},
        [(3, 2, 5, 4), (2, 3, 3, 3)],
    ),
    Case("Deconvolution", {"kernel": (3, 3), "num_group": 3, "num_filter": 6}, [(3, 6, 5, 4), (6, 2, 3, 3)]),
    Case("Deconvolution", {"kernel": (3,), "dilate": (2,), "num_filter": 5}, [(3, 3, 5), (3, 5, 3)]),
    Case(
        "Deconvolution",
        {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "num_filter": 4, "no_bias": False},
        [(3, 5, 3, 4), (5, 4, 3, 2), (4,)],
    ),
    Case(
        "Deconvolution",
        {"kernel": (2,), "num_group": 3, "num_filter": 6, "no_bias": False},
        [(3, 6, 5), (6, 2, 2), (6,)],
    ),
    # oneDNN's single-precision kernels reject target_shape.
    *(
        Case(
            "Deconvolution",
            {"kernel": (4, 3), "stride": (2, 3), "target_shape": target, "num_filter": 3},
            [(4, 2, 5, 4), (2, 3, 4, 3)],
            double=(0, 1),
        )
        for target in ((10, 12), (9, 11))
    ),
    Case(
        "Deconvolution",
        {"kernel": (3,), "stride": (2,), "target_shape": (9,), "num_filter": 4, "no_bias": False},
        [(3, 5, 5), (5, 4, 3), (4,)],
        double=(0, 1, 2),
    ),
    # In three dimensions, MXNet's kernels have single precision only.
    Case(
        "Deconvolution",
        {
            "kernel": (2, 2, 3),
            "stride": (2, 1, 2),
            "pad": (0, 1, 1),
            "adj": (1, 0, 1),
            "num_filter": 4,
            "no_bias": False,
        },
        [single(3, 5, 3, 3, 4), single(5, 4, 2, 2, 3), single(4)],
    ),
    Case(
        "Deconvolution",
        {"kernel": (2, 3, 2), "num_group": 3, "num_filter": 6},
        [single(3, 6, 3, 4, 3), single(6, 2, 2, 3, 2)],
    ),
    Case("Deconvolution", {"kernel": (1, 1, 1), "num_filter": 4}, [single(3, 5, 3, 2, 4), single(5, 4, 1, 1, 1)]),
]
