"""Element-wise JAX operations: arithmetic, comparisons, selections, and functions of one number."""

from tdl_ops.jax import op, special
from tdl_ops.jax.operands import find_cells
from tofu import tdl
from tofu.errors import UnsupportedError

SAME = "cbrt ceil cos cosh erf exp expm1 floor imag log log1p log2 real sign sin sinh sqrt square tan tanh"
INVERSE = "cos cosh sin sinh tan tanh"
UNARY = {
    **{name: getattr(tdl, name) for name in SAME.split()},
    **{f"a{name}": getattr(tdl, f"arc{name}") for name in INVERSE.split()},
    "abs": tdl.absolute,
    "bessel_i0e": special.i0e,
    "bessel_i1e": special.i1e,
    "conj": tdl.conjugate,
    "digamma": special.digamma,
    "erf_inv": special.erf_inv,
    "erfc": special.erfc,
    "exp2": lambda x: tdl.power(2.0, x),
    "is_finite": tdl.isfinite,
    "lgamma": tdl.gammaln,
    "logistic": lambda x: 1 / (1 + tdl.exp(-x)),
    "neg": tdl.negative,
    "one_minus_square": lambda x: 1 - x * x,
    "rsqrt": lambda x: 1 / tdl.sqrt(x),
}
BINARY = {
    "add": tdl.add,
    "add_any": tdl.add,
    "atan2": tdl.arctan2,
    "complex": special.complex_of,
    "eq": tdl.equal,
    "ge": tdl.greater_equal,
    "gt": tdl.greater,
    "igamma": special.igamma,
    "igamma_grad_a": special.igamma_grad_a,
    "igammac": special.igammac,
    "le": tdl.less_equal,
    "le_to": special.is_not_after,
    "lt": tdl.less,
    "lt_to": special.is_before,
    "max": tdl.maximum,
    "min": tdl.minimum,
    "mul": tdl.multiply,
    "ne": tdl.not_equal,
    "polygamma": special.polygamma,
    "pow": tdl.power,
    "rem": tdl.fmod,
    "sub": tdl.subtract,
    "zeta": special.zeta,
}


def describe_cells(function):

    def description(*x, literals=()):
        cells = find_cells(x, literals)
        return lambda *i: function(*cells(i))

    return description


def sum_powers(x, *coefficients):
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


def select_case(which, *cases):
    value = cases[-1]
    for number, case in reversed(list(enumerate(cases[:-1]))):
        value = tdl.where(which == number, case, value)
    return value


OTHERS = {
    "clamp": lambda low, value, high: tdl.minimum(tdl.maximum(value, low), high),
    "polynomial": sum_powers,
    "regularized_incomplete_beta": special.betainc,
    "select_n": select_case,
}

for _name, _function in (UNARY | BINARY | OTHERS).items():
    op(_name)(describe_cells(_function))


@op("div")
def divide(*x, output_types, literals=()):
    is_integer = "int" in output_types[0]  # quotients of integers are truncated
    cells = find_cells(x, literals)
    quotient = lambda x, y: tdl.trunc(tdl.divide(x, y)) if is_integer else tdl.divide(x, y)
    return lambda *i: quotient(*cells(i))


@op("nextafter")
def nextafter(*x, output_types, literals=()):
    if output_types[0] not in special.NEXT_AFTER:
        raise UnsupportedError(
            f"nextafter of {output_types[0]} is not described, only of {' and '.join(special.NEXT_AFTER)}"
        )
    return describe_cells(special.NEXT_AFTER[output_types[0]])(*x, literals=literals)


@op("round")
def round_(x, *, rounding_method):
    away = lambda v: tdl.sign(v) * tdl.floor(tdl.absolute(v) + 0.5)
    return lambda *i: away(x[i]) if rounding_method == "AWAY_FROM_ZERO" else tdl.rint(x[i])


@op("integer_pow")
def integer_pow(x, *, y):
    return lambda *i: x[i] ** y
