"""Flash attention as a Pallas kernel with its own gradient, interpreted on CPUs, in a small Transformer."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from tests.models.jax.plain import descend

BLOCK = 8


def _scores(q, k, rows, columns):
    return jnp.where(rows[:, None] >= columns, q @ k.T / q.shape[-1] ** 0.5, -1e30)


def _forward_kernel(q_ref, k_ref, v_ref, out_ref, sums_ref):
    q, first = q_ref[...], pl.program_id(2) * BLOCK
    rows = first + jnp.arange(BLOCK)

    def visit(n, carry):
        most, total, result = carry
        columns = n * BLOCK + jnp.arange(BLOCK)
        scores = _scores(q, k_ref[pl.ds(n * BLOCK, BLOCK), :], rows, columns)
        new = jnp.maximum(most, scores.max(1))
        weights, rest = jnp.exp(scores - new[:, None]), jnp.exp(most - new)
        result = result * rest[:, None] + weights @ v_ref[pl.ds(n * BLOCK, BLOCK), :]
        return new, total * rest + weights.sum(1), result

    begin = jnp.full(BLOCK, -1e30, q.dtype), jnp.zeros(BLOCK, q.dtype), jnp.zeros_like(q)
    most, total, result = lax.fori_loop(0, pl.program_id(2) + 1, visit, begin)
    out_ref[...] = result / total[:, None]
    sums_ref[...] = most + jnp.log(total)


def _backward_kernel(q_ref, k_ref, v_ref, out_ref, sums_ref, d_out_ref, dq_ref, dk_ref, dv_ref):
    q, k, v, d_out = q_ref[...], k_ref[...], v_ref[...], d_out_ref[...]
    positions = jnp.arange(q.shape[0])
    weights = jnp.exp(_scores(q, k, positions, positions) - sums_ref[...][:, None])
    d_scores = weights * (d_out @ v.T - (d_out * out_ref[...]).sum(1)[:, None]) / q.shape[-1] ** 0.5
    dq_ref[...] = d_scores @ k
    dk_ref[...] = d_scores.T @ q
    dv_ref[...] = weights.T @ d_out


def _struct(x, *shape):
    return jax.ShapeDtypeStruct(shape or x.shape, x.dtype)


def run_forward(q, k, v):
    batch, heads, length, width = q.shape
    rows = pl.BlockSpec((None, None, BLOCK, width), lambda b, h, i: (b, h, i, 0))
    whole = pl.BlockSpec((None, None, length, width), lambda b, h, i: (b, h, 0, 0))
    sums = pl.BlockSpec((None, None, BLOCK), lambda b, h, i: (b, h, i))
    call = pl.pallas_call(
        _forward_kernel,
        grid=(batch, heads, length // BLOCK),
        in_specs=[rows, whole, whole],
        out_specs=[rows, sums],
        out_shape=[_struct(q), _struct(q, *q.shape[:3])],
        interpret=True,
    )
    return call(q, k, v)


def run_backward(q, k, v, out, sums, d_out):
    batch, heads, length, width = q.shape
    head = pl.BlockSpec((None, None, length, width), lambda b, h: (b, h, 0, 0))
    call = pl.pallas_call(
        _backward_kernel,
        grid=(batch, heads),
        in_specs=[*[head] * 4, pl.BlockSpec((None, None, length), lambda b, h: (b, h, 0)), head],
        out_specs=[head] * 3,
        out_shape=[_struct(q)] * 3,
        interpret=True,
    )
    return call(q, k, v, out, sums, d_out)


def make_attention(forward=run_forward, backward=run_backward):
    @jax.custom_vjp
    def attention(q, k, v):
        return forward(q, k, v)[0]

    def save(q, k, v):
        out, sums = forward(q, k, v)
        return out, (q, k, v, out, sums)

    attention.defvjp(save, lambda saved, d_out: tuple(backward(*saved, d_out)))
    return attention


def plain_attention(q, k, v):
    positions = jnp.arange(q.shape[2])
    return jax.nn.softmax(jax.vmap(jax.vmap(partial(_scores, rows=positions, columns=positions)))(q, k)) @ v


def make_step(attention, batch=4, length=32, heads=4, width=16, layers=1, wrap=None, scans=False):
    random = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(random.normal(size=shape) / 8, jnp.float32)  # noqa: E731
    size = heads * width
    shapes = {"qkv": (size, 3 * size), "out": (size, size), "up": (size, 4 * size), "down": (4 * size, size)}
    params = {name: draw(layers, *shape) for name, shape in shapes.items()}

    def layer(x, p):
        split = (x @ p["qkv"]).reshape(*x.shape[:2], 3, heads, width).transpose(2, 0, 3, 1, 4)
        attended = attention(*split).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + attended @ p["out"]
        return x + jax.nn.relu(x @ p["up"]) @ p["down"], None

    body = wrap(layer) if wrap else layer

    def find_loss(params, x):
        if scans:
            y, _ = lax.scan(body, x, params)
        else:
            y = x
            for n in range(layers):
                y, _ = body(y, jax.tree.map(lambda p, n=n: p[n], params))
        return jnp.mean(y**2)

    return descend(find_loss), params, draw(batch, length, size)
