"""Train a Transformer with optax's AdamW to continue Python source, byte by byte. The text is argparse.

python examples/jax/transformer.py
python -m tofu plan examples/jax/transformer.py:step --workers 8
"""

import argparse
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
from side_by_side import read_options, train_side_by_side

import tofu.jax

BATCH, LENGTH, VOCABULARY = 8, 64, 128
WIDTH, HEADS, LAYERS = 256, 8, 2

OPTIMIZER = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adamw(optax.warmup_cosine_decay_schedule(0, 3e-3, 10, 400), weight_decay=0.01)
)


def make_state(key):
    """Return the parameters and the state of the optimizer."""
    shapes = {
        "tokens": (VOCABULARY, WIDTH),
        "positions": (LENGTH, WIDTH),
        "blocks": [
            {
                **dict.fromkeys(("query", "key", "value"), (WIDTH, HEADS, WIDTH // HEADS)),
                "out": (HEADS, WIDTH // HEADS, WIDTH),
                "up": (WIDTH, 4 * WIDTH),
                "down": (4 * WIDTH, WIDTH),
                **dict.fromkeys(("scale_1", "scale_2"), (WIDTH,)),
            }
            for _ in range(LAYERS)
        ],
        "scale": (WIDTH,),
    }
    leaves, tree = jax.tree.flatten(shapes, is_leaf=lambda shape: isinstance(shape, tuple))
    keys = jax.random.split(key, len(leaves))
    params = [
        jnp.ones(shape) if len(shape) == 1 else 0.05 * jax.random.normal(k, shape)
        for k, shape in zip(keys, leaves, strict=True)
    ]
    params = jax.tree.unflatten(tree, params)
    return params, OPTIMIZER.init(params)


def normalize(x, scale):
    """Normalize by the root mean square."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale


def attend(block, x):
    """Attend to earlier positions."""
    query, key, value = (jnp.einsum("btd,dhe->bthe", x, block[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bthe,bshe->bhts", query, key) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    return jnp.einsum("bhts,bshe,hed->btd", jax.nn.softmax(scores), value, block["out"])


@jax.checkpoint
def run_block(block, x):
    """Run attention and a perceptron with skip connections, recomputed in the backward pass."""
    x = x + attend(block, normalize(x, block["scale_1"]))
    return x + jax.nn.gelu(normalize(x, block["scale_2"]) @ block["up"]) @ block["down"]


def find_loss(params, text):
    """Return the cross-entropy of the next byte, in nats."""
    before, after = text[:, :-1], text[:, 1:]
    x = params["tokens"][before] + params["positions"]
    for number, block in enumerate(params["blocks"]):
        with jax.named_scope(f"block_{number}"):
            x = run_block(block, x)
    logits = normalize(x, params["scale"]) @ params["tokens"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, after).mean()


def step(state, text):
    """Run a training step. Return the next state and the loss."""
    params, moments = state
    loss, gradients = jax.value_and_grad(find_loss)(params, text)
    updates, moments = OPTIMIZER.update(gradients, moments, params)
    return (optax.apply_updates(params, updates), moments), loss


def draw_batches(steps):
    """Yield pieces of the text, as numbers below 128."""
    text = np.frombuffer(inspect.getsource(argparse).encode("ascii", "ignore"), np.uint8).astype(np.int32)
    starts = np.random.default_rng(0).integers(0, len(text) - LENGTH, (steps, BATCH))
    return (text[some[:, None] + np.arange(LENGTH + 1)] for some in starts)


def example_args():
    """Return the shapes and types to plan for."""
    return jax.eval_shape(make_state, jax.random.key(0)), jax.ShapeDtypeStruct((BATCH, LENGTH + 1), "int32")


def main():
    """Train on one device and on several."""
    options = read_options(__doc__, steps=30)
    parallel = tofu.jax.partition(step, options.workers, example_args())  # the only new line
    usual = tofu.jax.partition(step, options.workers, example_args(), algorithm="data-parallel")
    print(f"Data parallelism, which holds the whole state everywhere, moves {usual.plan.communication_bytes:,} bytes.")
    train_side_by_side(step, parallel, make_state(jax.random.key(0)), draw_batches(options.steps))


if __name__ == "__main__":
    main()
