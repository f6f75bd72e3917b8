from dataclasses import replace
from importlib import import_module

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform

FAMILIES = "activation binary broadcast constant diagonal factorization layout ordering resampling reshape scalar unary"
FIRST: dict[object, Case] = {}  # description -> its first case
for _family in FAMILIES.split():
    for _case in import_module(f"tdl_ops.mxnet.cases.{_family}").CASES:
        if (_known := DESCRIPTIONS.get(_case.op)) is not None:
            FIRST.setdefault(_known.function, _case)

SHARED = {
    name: case
    for name, description in DESCRIPTIONS.items()
    if name.startswith(("_np_", "_npi_", "_npx_")) and (case := FIRST.get(description.function)) and case.op != name
}
REDUCTIONS = ("_np_sum", "_np_prod", "_np_max", "_np_min", "_npi_mean")

CASES = [
    *(replace(case, op=name) for name, case in SHARED.items()),
    *(Case(name, {"axis": axis}, [uniform(0.5, 1.5, 5, 3, 7)]) for name in REDUCTIONS for axis in (1, (0, -1))),
    Case("_npi_concatenate", {"num_args": 3, "axis": -2}, [(5, 3, 4), (5, 1, 4), (5, 2, 4)]),
    Case("_np_reshape", {"newshape": (5, 2, 6)}, [(5, 3, 4)]),
    Case("_npx_reshape", {"newshape": (-1, 6)}, [(5, 3, 4)]),
    Case("_npi_matmul", {}, [(3, 4, 5), (3, 5, 7)]),
    Case("_np_dot", {}, [(4, 5), (5, 7)]),
]
