from dataclasses import replace

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import labels, uniform

SHARE, SHARES = (replace(uniform(0.1, 0.9, *shape), dtype="float32") for shape in ((5,), (3, 5)))

CASES = [
    *(
        Case(f"{name}RegressionOutput", {"grad_scale": 2.0}, [(5, 7, 3), (5, 7, 3)], None, SINGLE_PRECISION)
        for name in ("Linear", "Logistic", "MAE")
    ),
    *(Case("LinearRegressionOutput", {}, [shape, (5,)]) for shape in ((5,), (5, 1))),
    Case("LinearRegressionOutput", {"grad_scale": 2.0}, [(6,), (6, 1)]),
    Case("MakeLoss", {"grad_scale": 2.0}, [(5, 7)]),
    *(
        Case("MakeLoss", {"normalization": "batch", "grad_scale": 2.0}, [shape], None, SINGLE_PRECISION)
        for shape in ((7,), (5, 7), (5, 3, 4))
    ),
    Case(
        "MakeLoss", {"normalization": "valid", "valid_thresh": 0.1, "grad_scale": 2.0}, [(5, 7)], None, SINGLE_PRECISION
    ),
    Case("SVMOutput", {}, [(5, 7), labels(7, 5)], None, SINGLE_PRECISION),
    Case("SVMOutput", {}, [(3, 2, 5), labels(5, 3, 2)], None, SINGLE_PRECISION),
    Case("SVMOutput", {"use_linear": True, "margin": 0.5}, [(5, 7), labels(7, 5)], None, SINGLE_PRECISION),
    Case("IdentityAttachKLSparseReg", {}, [SHARES, SHARE]),
    Case("softmax_cross_entropy", {}, [(5, 7), labels(7, 5)], wrt=(0,)),
]
