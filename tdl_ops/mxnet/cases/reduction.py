from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import rounded, uniform

CASES = [
    *(
        Case(op, attributes, [uniform(0.5, 1.5, 5, 3, 7)])
        for op in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")
        for attributes in ({}, {"axis": (1,)}, {"axis": (0, -1), "keepdims": True}, {"axis": 1, "exclude": True})
    ),
    *(Case("norm", {"ord": order, "axis": 1}, [(5, 3, 7)]) for order in (1, 2)),
    Case("norm", {}, [(5, 7)]),
    *(Case("moments", {"axes": (0, 2), "keepdims": keepdims}, [(5, 3, 7)]) for keepdims in (False, True)),
    *(Case(op, {"axis": (0, 2), "ddof": 1}, [(5, 3, 7)], wrt=()) for op in ("_npi_var", "_npi_std")),
    Case("_npi_var", {"keepdims": True}, [(5, 3)], wrt=()),
    *(
        Case(op, {"axis": axis, "keepdims": keepdims}, [rounded(5, 3, 7)], wrt=())
        for op in ("_np_all", "_np_any")
        for axis, keepdims in (((0,), False), ((1, 2), True))
    ),
]
