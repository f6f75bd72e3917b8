"""Correctness of `tofu.jax` steps that only a GPU can run: attention by cuDNN and Pallas, and residuals in the host's memory.

\b
    python -m benchmarks.jax_gpu_kernels --json FILE

Each step is planned for one worker, and its results are compared with `jax.jit` on the GPU. The scratch memory that XLA
allocates on the device and on the host shows if residuals still move to the host.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import tofu.jax

LIMITS = {"bfloat16": 2e-2, "float32": 1e-5}  # largest difference, relative to the largest number of the result
BATCH, LENGTH, HEADS, WIDTH = 4, 1024, 8, 64

Step = tuple[Callable[..., Any], tuple[Any, ...]]


def attend_by_cudnn(is_causal: bool) -> Step:
    return make_attention_step(
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=is_causal, implementation="cudnn")
    )


def attend_by_pallas() -> Step:
    from jax.experimental.pallas.ops.gpu import attention

    return make_attention_step(lambda q, k, v: attention.mha(q, k, v, None, causal=True, sm_scale=WIDTH**-0.5))


def make_attention_step(attend: Callable[..., Any]) -> Step:
    random = np.random.default_rng(0)
    size = HEADS * WIDTH
    params = {name: jnp.asarray(random.normal(size=(size, size)) / 16, jnp.bfloat16) for name in "qkv"}
    x = jnp.asarray(random.normal(size=(BATCH, LENGTH, size)), jnp.bfloat16)

    def find_loss(params: Any, x: Any) -> Any:
        q, k, v = ((x @ params[name]).reshape(BATCH, LENGTH, HEADS, WIDTH) for name in "qkv")
        return jnp.sum(attend(q, k, v).astype(jnp.float32) ** 2)

    return (lambda params, x: jax.value_and_grad(find_loss)(params, x)), (params, x)


def train_layers(policy: Any) -> Step:
    """Return a step with a scan over layers. The checkpoint policy `policy` places the residuals."""
    random = np.random.default_rng(0)
    weights = jnp.asarray(random.normal(size=(8, 1024, 1024)) / 32, jnp.float32)
    x = jnp.asarray(random.normal(size=(8192, 1024)), jnp.float32)

    def layer(h: Any, weight: Any) -> Any:
        h = checkpoint_name(jnp.tanh(h @ weight), "h")
        return h + jnp.sin(h), None

    def loss(weights: Any, x: Any) -> Any:
        return jnp.mean(lax.scan(jax.checkpoint(layer, policy=policy), x, weights)[0] ** 2)

    return (lambda weights, x: weights - jax.grad(loss)(weights, x)), (weights, x)


def differentiate_a_step() -> Step:
    random = np.random.default_rng(0)
    weights = jnp.asarray(random.normal(size=(4, 512, 512)) / 16, jnp.float32)
    x = jnp.asarray(random.normal(size=(256, 512)), jnp.float32)

    def loss(weights: Any, x: Any) -> Any:
        return jnp.mean(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, weights)[0] ** 2)

    return loss, (weights, x)


def make_cases() -> Mapping[str, Callable[[], Step]]:
    policies = jax.checkpoint_policies
    offload = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host"
    )
    return {
        "attention by cuDNN": lambda: attend_by_cudnn(False),
        "causal attention by cuDNN": lambda: attend_by_cudnn(True),
        "attention by Pallas": attend_by_pallas,
        "residuals on the device": lambda: train_layers(policies.save_only_these_names("h")),
        "residuals on the host": lambda: train_layers(offload),
        "gradient of a partitioned loss": differentiate_a_step,
    }


def compare(name: str, make: Callable[[], Step]) -> dict[str, Any]:
    step, arguments = make()
    made: Any = tofu.jax.partition(step, 1, arguments)
    plain: Any = step
    if name.startswith("gradient"):
        made, plain = jax.grad(made), jax.grad(plain)
    row: dict[str, Any] = {"step": name, "error": 0.0, "limit": 0.0}
    results = []
    for kind, function in (("plain", plain), ("partitioned", made)):
        compiled = jax.jit(function).lower(*arguments).compile()
        memory = compiled.memory_analysis()
        row[f"{kind} scratch"] = memory.temp_size_in_bytes
        row[f"{kind} scratch on the host"] = memory.host_temp_size_in_bytes
        results.append([np.asarray(leaf) for leaf in jax.tree.leaves(compiled(*arguments))])
    for ours, theirs in zip(results[1], results[0], strict=True):
        limit = LIMITS.get(theirs.dtype.name, 1e-5)
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        error = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
        if not error <= limit:
            raise AssertionError(f"off by {error:.1e} from jax.jit, allowed are {limit:.1e}")
        row["error"], row["limit"] = max(row["error"], error), max(row["limit"], limit)
    return row


@click.command(help=__doc__)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures to this file.")
def main(path: Path | None) -> None:
    if (platform := jax.default_backend()) != "gpu":
        raise click.ClickException(f"These steps need a GPU, and JAX runs on {platform!r}. Install jax[cuda13].")
    rows, failed = [], False
    for name, make in make_cases().items():
        try:
            row = compare(name, make)
        except Exception as error:  # one step must not hide the others
            traceback.print_exc()
            row, failed = {"step": name, "failure": f"{type(error).__name__}: {error}".splitlines()[0]}, True
        rows.append(row)
        print(json.dumps(row), flush=True)
    if path is not None:
        path.write_text(json.dumps({"device": jax.devices()[0].device_kind, "jax": jax.__version__, "rows": rows}))
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
