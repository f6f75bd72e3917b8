"""JAX: steps are read from their jaxprs and planned. What runs the plans comes next.

source = read_step(step, (state, batch))
task = core.analyse_step(source, JAX, core.Settings(workers=8), core.Observer())
"""

from tdl_ops.jax import op
from tofu.jax.engine import JAX
from tofu.jax.frontend.read_step import read_step

__all__ = ["JAX", "op", "read_step"]
