"""Generate tokens with a Llama-like model whose key-value cache is split along the sequence.

A long context needs a large cache, so each device holds the keys and values of a range of positions. A step takes one
token, writes its keys and values into the cache, attends to the whole cache, and draws the next token.

python examples/jax/decode.py --workers 8
"""

import argparse

import jax
import jax.numpy as jnp

import tofu.jax

LAYERS, WIDTH, HIDDEN, VOCABULARY = 4, 256, 704, 2048
HEADS, GROUPS, HEAD_WIDTH = 8, 2, 32  # grouped-query attention: four heads share their keys and values
POSITIONS, BATCH = 4096, 2


def make_weights(key):
    """Return the weights of all layers, and the embedding."""
    shapes = {
        "query": (WIDTH, HEADS * HEAD_WIDTH),
        "key": (WIDTH, GROUPS * HEAD_WIDTH),
        "value": (WIDTH, GROUPS * HEAD_WIDTH),
        "out": (HEADS * HEAD_WIDTH, WIDTH),
        "gate": (WIDTH, HIDDEN),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    keys = iter(jax.random.split(key, LAYERS * len(shapes) + 1))

    def draw(shape):
        return jax.random.normal(next(keys), shape) * shape[0] ** -0.5

    layers = [{name: draw(shape) for name, shape in shapes.items()} for _ in range(LAYERS)]
    return {"embedding": draw((VOCABULARY, WIDTH)), "layers": layers}


def make_state(key):
    """Return an empty cache, the first token of each sequence, its position, and the key for random numbers."""
    cache = [
        {name: jnp.zeros((BATCH, POSITIONS, GROUPS, HEAD_WIDTH)) for name in ("keys", "values")} for _ in range(LAYERS)
    ]
    return {"cache": cache, "token": jnp.zeros(BATCH, jnp.int32), "position": jnp.int32(0), "key": key}


def normalize(x):
    """Normalize by the root mean square."""
    return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


def rotate(x, position):
    """Rotate pairs of elements by angles that grow with the position (RoPE)."""
    half = x.shape[-1] // 2
    angle = position * 1e4 ** (-jnp.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate(
        [left * jnp.cos(angle) - right * jnp.sin(angle), right * jnp.cos(angle) + left * jnp.sin(angle)], -1
    )


def attend(layer, cache, x, position):
    """Add the keys and values of this position to the cache, and attend to all positions up to this one."""
    query = rotate((x @ layer["query"]).reshape(BATCH, GROUPS, HEADS // GROUPS, HEAD_WIDTH), position)
    new = {
        "keys": rotate((x @ layer["key"]).reshape(BATCH, 1, GROUPS, HEAD_WIDTH), position),
        "values": (x @ layer["value"]).reshape(BATCH, 1, GROUPS, HEAD_WIDTH),
    }
    cache = {name: jax.lax.dynamic_update_slice(cache[name], new[name], (0, position, 0, 0)) for name in new}
    scores = jnp.einsum("bghd,bpgd->bghp", query, cache["keys"]) * HEAD_WIDTH**-0.5
    scores = jnp.where(jnp.arange(POSITIONS) <= position, scores, -jnp.inf)
    mixed = jnp.einsum("bghp,bpgd->bghd", jax.nn.softmax(scores), cache["values"])
    return mixed.reshape(BATCH, -1) @ layer["out"], cache


def step(state, weights):
    """Draw the next token. Return the new state and the token."""
    x, position, caches = weights["embedding"][state["token"]], state["position"], []
    for layer, cache in zip(weights["layers"], state["cache"], strict=True):
        mixed, cache = attend(layer, cache, normalize(x), position)
        x, caches = x + mixed, [*caches, cache]
        y = normalize(x)
        x = x + (jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
    key, drawn = jax.random.split(state["key"])
    token = jax.random.categorical(drawn, normalize(x) @ weights["embedding"].T)
    return {"cache": caches, "token": token, "position": position + 1, "key": key}, token


def example_args():
    """Return the arguments of a step."""
    return make_state(jax.random.key(1)), make_weights(jax.random.key(0))


CACHE_BY_POSITION = {f"state/cache/{n}/{name}": 1 for n in range(LAYERS) for name in ("keys", "values")}
"""Hints that split the cache along its dimension 1, the positions."""


def main():
    """Draw tokens on one device and on several, and compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=16)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.workers)
    state, weights = example_args()
    partitioned = tofu.jax.partition(step, options.workers, (state, weights), hints=CACHE_BY_POSITION, donate_argnums=0)
    print(f"The plan: {options.workers} workers move {partitioned.plan.communication_bytes:,} bytes for a token.")
    alone = jax.jit(step)
    ours, placed = partitioned.place(state), partitioned.place(weights, argument=1)
    for _ in range(options.tokens):
        ours, token = partitioned(ours, placed)
        state, expected = alone(state, weights)
        print(*token.tolist(), "" if (token == expected).all() else f"One device draws {expected.tolist()}.")


if __name__ == "__main__":
    main()
