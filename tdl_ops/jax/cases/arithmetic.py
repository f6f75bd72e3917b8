import jax
import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, complexes, each, integers, pair
from tofu.verification.numbers import uniform

FUNCTIONS = each(
    jnp.abs, jnp.sign, jnp.floor, jnp.ceil, jnp.round, lax.round, jnp.exp, jnp.exp2, jnp.expm1, jnp.sin, jnp.cos, jnp.tan,
    jnp.sinh, jnp.cosh, jnp.tanh, jnp.arctan, jnp.arcsinh, jnp.cbrt, jnp.square, jax.nn.sigmoid, lax.erf, lax.erfc, jnp.isfinite,
    lambda x: x**3, lambda x: x**-2, jax.nn.gelu, jax.nn.silu, jax.nn.softplus,
)  # fmt: skip
POSITIVE = each(
    jnp.log, jnp.log2, jnp.log1p, jnp.sqrt, lax.rsqrt, lax.lgamma, lax.digamma, lambda x: x**1.7, jnp.arccosh
)
OF_TWO = each(jnp.arctan2, lax.rem, jnp.nextafter, jnp.minimum, lax.le, lax.ge, lax.ne, lax.eq, lax.lt, lax.gt)
SPECIAL = each(
    lax.bessel_i0e,
    lax.bessel_i1e,
    lambda x: (lax.igamma(x, x[::-1]), lax.igammac(x, x[::-1]), lax.zeta(x + 1, x[::-1])),
    lambda x: (lax.polygamma(jnp.ones_like(x), x), lax.polygamma(jnp.full_like(x, 3), x)),
    lambda x: lax.betainc(x, x[::-1], x / 5),
)
UNIT = each(jnp.arcsin, jnp.arccos, jnp.arctanh, lax.erf_inv)


def select(x, y):
    return jnp.where(x > 0, x, y) + jnp.maximum(x, y) + jnp.clip(x, -1, 1) + lax.clamp(-1.0, y, 1.0)


def evaluate(x, c, d):
    return jnp.polyval(c, x) + jnp.polyval(jnp.stack([x, d[0], x]), d)


def differentiate_gamma(a, x):
    return lax.igamma(a, x) + lax.lgamma(a)


def compute(x, y):
    x, y = pair(x), pair(y)
    return x * y / (x + 3), jnp.exp(x), jnp.abs(x), x.real, x.imag, jnp.conj(y), -x


CASES = [
    PrimitiveCase(
        "elementwise", both(lambda x, y: jnp.tanh(x) * jax.nn.sigmoid(y) + jnp.exp(x) / (1 + y**2)), (4, 7), (4, 7)
    ),
    PrimitiveCase("functions", FUNCTIONS, (4, 7)),
    PrimitiveCase("functions of positive numbers", POSITIVE, uniform(1.1, 4, 4, 7)),
    PrimitiveCase("functions of less than one", UNIT, uniform(-0.9, 0.9, 4, 7)),
    PrimitiveCase("two operands", OF_TWO, (4, 7), (4, 7)),
    PrimitiveCase("next numbers", lambda x: jnp.nextafter(x.astype(jnp.float32), jnp.float32(0)), (4, 7)),
    PrimitiveCase("single precision", both(lambda x: jnp.tanh(x.astype(jnp.float32)) * 3), (4, 7)),
    PrimitiveCase("bfloat16", both(lambda x: jnp.tanh(x.astype(jnp.bfloat16)) * 3), (4, 7)),
    PrimitiveCase("broadcast", both(lambda x, y, z: x * y + z), (4, 7), (1, 7), (4, 1)),
    PrimitiveCase("select", both(select), (4, 7), (4, 7)),
    PrimitiveCase("polynomials", both(evaluate), (4, 7), (3,), (1, 4, 7)),
    PrimitiveCase("select of three", lambda n, x: lax.select_n(n, x, x + 1, x * 2), integers(0, 3, 4, 7), (4, 7)),
    PrimitiveCase(
        "clamp between tensors", lambda x, y: lax.clamp(jnp.minimum(x, y), x * y, jnp.maximum(x, y)), (4, 7), (4, 7)
    ),
    PrimitiveCase(
        "integers", lambda x: ((x + 3) % 5, (x - 20) // 7, x / 3, -x, jnp.abs(x), x**2), integers(-20, 30, 6, 4)
    ),
    PrimitiveCase(
        "activations", both(each(jax.nn.elu, jax.nn.mish, jax.nn.selu, jax.nn.hard_swish, jax.nn.celu)), (4, 7)
    ),
    PrimitiveCase("special functions", SPECIAL, uniform(0.2, 4, 4, 7)),
    PrimitiveCase("derivatives of gamma functions", both(differentiate_gamma), *[uniform(0.5, 4, 4, 7)] * 2),
    PrimitiveCase("complex numbers", compute, complexes(4, 7), complexes(4, 7)),
]
