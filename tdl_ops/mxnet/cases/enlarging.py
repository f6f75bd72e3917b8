from tdl_ops.mxnet.case import Case

NEAREST = {"scale": 2, "sample_type": "nearest"}
BILINEAR = {"sample_type": "bilinear", "num_args": 2, "num_filter": 5}
PADDED = {"pad_width": (0, 0, 0, 0, 1, 2, 2, 1)}
JOINED = {"num_args": 3, "multi_input_mode": "concat"}
ADDED = {"scale": 1, "num_args": 2, "multi_input_mode": "sum"}

CASES = [
    Case("UpSampling", {**NEAREST, "num_args": 1}, [(3, 5, 3, 4)]),
    Case("UpSampling", {**NEAREST, **JOINED}, [(3, 5, 4, 6), (3, 2, 2, 3), (3, 4, 8, 12)]),
    Case("UpSampling", {**NEAREST, **ADDED}, [(3, 5, 6, 9), (3, 5, 2, 3)]),
    Case("Pad", {"mode": "constant", **PADDED, "constant_value": 0.5}, [(3, 5, 3, 4)]),
    *(Case("UpSampling", {"scale": n, **BILINEAR}, [(3, 5, 3, 4), (5, 1, k, k)]) for n, k in ((2, 4), (3, 5))),
    *(Case("Pad", {"mode": mode, **PADDED}, [(3, 5, 3, 4)]) for mode in ("edge", "reflect")),
]
