"""Operators of MXNet's NumPy interface that share the description of a similar operator.

Comparisons return booleans, and argmax returns integers. Binary operators broadcast, and their gradients take both
operands.
"""

from functools import wraps
from importlib import import_module

from tdl_ops.mxnet import DESCRIPTIONS, layout, linalg, op, reshape
from tdl_ops.mxnet.unary import NUMPY_NAMES
from tofu.errors import UnsupportedError

FAMILIES = "activation binary broadcast constant diagonal ordering reduction resampling scalar"
for _family in FAMILIES.split():  # their descriptions must exist before they get more names
    import_module(f"tdl_ops.mxnet.{_family}")

SCALARS = {
    "add": "plus",
    "subtract": "minus",
    "rsubtract": "rminus",
    "multiply": "mul",
    "true_divide": "div",
    "rtrue_divide": "rdiv",
    "less": "lesser",
    "less_equal": "lesser_equal",
    **{name: name for name in ("mod", "rmod", "power", "rpower", "equal", "not_equal", "greater", "greater_equal")},
}
BINARY = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "true_divide": "div",
    "mod": "mod",
    "power": "power",
    "hypot": "hypot",
}
REDUCTIONS = {"sum": "_np_sum", "prod": "_np_prod", "max": "_np_max", "min": "_np_min", "mean": "_npi_mean"}

NAMES: dict[str, str] = {
    **{f"_npi_{name}": name for name in [*NUMPY_NAMES.split(), "fix"]},
    "_npi_absolute": "abs",
    "_npi_around": "round",
    **{f"_npi_{name}_scalar": f"_{own}_scalar" for name, own in SCALARS.items()},
    **{f"_npi_{name}": f"broadcast_{own}" for name, own in BINARY.items()},
    **{
        f"_npi_{name}": f"broadcast_{SCALARS[name]}"
        for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
    },
    **{name: own for own, name in REDUCTIONS.items()},
    "_np_copy": "_copy",
    "_np_diag": "diag",
    "_np_transpose": "transpose",
    "_npi_argmax": "argmax",
    "_npi_argmin": "argmin",
    "_npi_broadcast_to": "broadcast_to",
    "_npi_cholesky": "_linalg_potrf",
    "_npi_flip": "reverse",
    "_npi_ones": "_ones",
    "_npi_stack": "stack",
    "_npi_zeros": "_zeros",
    "_npx_relu": "relu",
    "_npx_sigmoid": "sigmoid",
}
"""Operator of the NumPy interface -> the operator whose description it shares."""

GRADIENTS = {
    **{f"_backward_npi_broadcast_{own}": f"_backward_broadcast_{own}" for own in BINARY.values() if own != "hypot"},
    **{f"_backward_np_{own}": f"_backward_{own}" for own in REDUCTIONS},
    "_backward_npi_flip": "_backward_reverse",
    "_backward_npi_hypot": "_backward_broadcast_hypot",
    "_backward_np_broadcast_to": "_broadcast_backward",
}


def _share(name, described):
    known = DESCRIPTIONS[described]
    options = {key: getattr(known, key) for key in ("bound", "corrects", "pads", "fill", "concrete")}
    is_reduction = described.removeprefix("_backward_") in REDUCTIONS
    op(name, **options)(_with_empty_axis(known.function) if is_reduction else known.function)


def _with_empty_axis(function):
    # Here, axis=() means no dimension. In the original description, it means all dimensions.
    @wraps(function)
    def description(data, *others, axis=None, **options):
        if axis == ():
            axis, options["exclude"] = tuple(range(data.ndim)), True
        return function(data, *others, axis=axis, **options)

    return description


for _name, _described in (NAMES | GRADIENTS).items():
    _share(_name, _described)


def _check_axis(axis):
    if axis is None:
        raise UnsupportedError(
            "np.concatenate with axis=None is not described; use axis=0, on x.reshape(-1) instead of x"
        )
    return axis


@op("_npi_concatenate")
def concatenate(*parts, axis=0):
    return layout.concat.function(*parts, dim=_check_axis(axis))


@op("_backward_np_concat", concrete=True)
def backward_concatenate(d_out, *, output_shapes, axis=0):
    return layout.backward_concat.function(d_out, output_shapes=output_shapes, dim=_check_axis(axis))


@op("_np_reshape", "_npx_reshape", concrete=True, bound={"newshape": lambda local: local.outputs[0].shape})
def reshape_to(data, *, output_shapes, newshape=()):
    return reshape.reshape_to_output.function(data, output_shapes=output_shapes)


def _check_matrices(a, b, most):
    if a.ndim != b.ndim or not 2 <= a.ndim <= most:
        raise UnsupportedError(
            f"a product of tensors of {a.ndim} and {b.ndim} dimensions is not described; products of two matrices, and by matmul of "
            "batches of them, are"
        )


def _describe_product(most):
    def product(a, b):
        _check_matrices(a, b, most)
        return linalg.gemm2.function(a, b)

    def gradient(d_out, a, b):
        _check_matrices(a, b, most)
        return linalg.backward_gemm2.function(d_out, a, b)

    return product, gradient


for _name, _most in (("matmul", 8), ("dot", 2)):
    _product, _gradient = _describe_product(_most)
    op("_npi_matmul" if _name == "matmul" else "_np_dot")(_product)
    op(f"_backward_np_{_name}")(_gradient)
