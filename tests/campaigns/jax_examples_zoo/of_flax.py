"""Steps of flax.linen's examples (github.com/google/flax, examples/)."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.campaigns.jax_examples_zoo.data import draw, draw_integers, on_one_replica
from tests.campaigns.jax_examples_zoo.models import JaxExample, Made

SIZES = {"emb_dim": 16, "num_heads": 4, "num_layers": 2, "qkv_dim": 16, "mlp_dim": 32, "max_len": 16}
TRANSFORMER = {**SIZES, "dtype": jnp.float64}


def _vae(script: Any) -> Made:
    model = script.models.model(5)
    images = (draw(8, 784) > 0).astype(float)
    params = model.init(jax.random.key(0), images, jax.random.key(1))["params"]
    state = script.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))
    return lambda state, batch, key: (script.train_step(state, batch, key, 5),), (state, images, jax.random.key(2))


def _lm1b(script: Any) -> Made:
    config = script.models.TransformerConfig(vocab_size=24, output_vocab_size=24, **TRANSFORMER)
    rate = script.create_learning_rate_schedule(0.01, 2)
    tokens = draw_integers(8, 16, below=24)
    segments = np.repeat([[1, 2]], 8, 0).repeat(8, 1)
    batch = {"inputs": tokens, "inputs_position": np.tile(np.arange(8), (8, 2)), "inputs_segmentation": segments}
    model = script.models.TransformerLM(config)
    params = model.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, tokens)["params"]
    tx = optax.adamw(rate, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.1)
    state = script.utils.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    step = partial(script.train_step, config=config, learning_rate_fn=rate)
    return lambda state, batch, key: step(state, batch, dropout_rng=key), (state, batch, jax.random.key(2))


def _nlp_seq(script: Any) -> Made:
    config = script.models.TransformerConfig(vocab_size=24, output_vocab_size=8, **TRANSFORMER)
    model = script.models.Transformer(config)
    batch = {"inputs": draw_integers(8, 16, below=24), "targets": draw_integers(8, 16, below=8)}
    params = model.init(jax.random.key(0), inputs=batch["inputs"], train=False)["params"]
    rate = script.create_learning_rate_scheduler(base_learning_rate=0.05, warmup_steps=2)
    tx = optax.adamw(rate, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.1)
    state = script.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    script.compute_metrics = lambda *_: {}  # it adds up a dictionary, which NumPy refuses
    step = partial(script.train_step, model=model, learning_rate_fn=rate)
    run = on_one_replica(lambda state, batch, key: step(state, batch, dropout_rng=key), "batch")
    return run, (state, batch, jax.random.key(2))


def _sst2(script: Any) -> Made:
    sizes = {"embedding_size": 12, "hidden_size": 16, "vocab_size": 40, "output_size": 1, "unk_idx": 1}
    rates = {"dropout_rate": 0.5, "word_dropout_rate": 0.1, "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 3e-6}
    config = SimpleNamespace(**sizes, **rates)
    state = script.create_train_state(jax.random.key(0), config, script.model_from_config(config))
    lengths = draw_integers(8, below=11, least=3)
    labels = draw_integers(8, below=2).astype(float)
    batch = {"token_ids": draw_integers(8, 10, below=40), "length": lengths, "label": labels}
    return script.train_step, (state, batch, {"dropout": jax.random.key(1)})


EXAMPLES = {
    "flax vae": JaxExample("flax/examples/vae/train.py", _vae),
    "flax lm1b": JaxExample("flax/examples/lm1b/train.py", _lm1b),
    "flax nlp_seq": JaxExample("flax/examples/nlp_seq/train.py", _nlp_seq),
    "flax sst2": JaxExample("flax/examples/sst2/train.py", _sst2, dtype="float32"),
}
