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

TRANSFORMER = {
    "emb_dim": 16,
    "num_heads": 4,
    "num_layers": 2,
    "qkv_dim": 16,
    "mlp_dim": 32,
    "max_len": 16,
    "dtype": jnp.float64,
}


def _vae(script: Any) -> Made:
    model = script.models.model(5)
    images = (draw(8, 784) > 0).astype(float)
    params = model.init(jax.random.key(0), images, jax.random.key(1))["params"]
    state = script.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))
    return lambda state, batch, key: (script.train_step(state, batch, key, 5),), (state, images, jax.random.key(2))


def _imagenet(script: Any, model_class: str = "ResNet18", **options: Any) -> Made:
    config = SimpleNamespace(warmup_epochs=1, num_epochs=4, momentum=0.9, half_precision=False)
    script.NUM_CLASSES = 16
    make = partial(getattr(script.models, model_class), num_filters=8, **options)
    model = make(num_classes=16, dtype=jnp.float64)
    rate = script.create_learning_rate_fn(config, 0.1, 2)
    state = script.create_train_state(jax.random.key(0), config, model, 32, rate)
    batch = {"image": draw(8, 32, 32, 3), "label": draw_integers(8, below=16)}
    return on_one_replica(partial(script.train_step, learning_rate_fn=rate), "batch"), (state, batch)


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


def _wmt(script: Any) -> Made:
    config = script.models.TransformerConfig(vocab_size=24, output_vocab_size=24, share_embeddings=True, **TRANSFORMER)
    rate = script.create_learning_rate_schedule(0.01, 2)
    batch = {"inputs": draw_integers(8, 12, below=24), "targets": draw_integers(8, 16, below=24, seed=2)}
    model = script.models.Transformer(config)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    params = model.init(keys, batch["inputs"], batch["targets"])["params"]
    tx = optax.adamw(rate, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.1)
    state = script.TrainState.create(apply_fn=model.apply, params=params, tx=tx, dynamic_scale=None)
    step = partial(script.train_step, config=config, learning_rate_fn=rate, label_smoothing=0.1)
    run = on_one_replica(lambda state, batch, key: step(state, batch, dropout_rng=key), "batch")
    return run, (state, batch, jax.random.key(2))


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


def _seq2seq(script: Any) -> Made:
    model = script.models.Seq2seq(teacher_force=False, hidden_size=16, eos_id=1, vocab_size=15)
    one_hot = lambda *shape, seed: np.eye(15)[draw_integers(*shape, below=15, seed=seed)]
    batch = {"query": one_hot(8, 7, seed=1), "answer": one_hot(8, 5, seed=2)}
    keys = {"params": jax.random.key(0), "lstm": jax.random.key(1)}
    params = model.init(keys, batch["query"], batch["answer"])["params"]
    state = script.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(3e-3))
    return lambda state, batch, key: script.train_step(state, batch, key, 1), (state, batch, jax.random.key(2))


def _sst2(script: Any) -> Made:
    sizes = {"embedding_size": 12, "hidden_size": 16, "vocab_size": 40, "output_size": 1, "unk_idx": 1}
    rates = {"dropout_rate": 0.5, "word_dropout_rate": 0.1, "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 3e-6}
    config = SimpleNamespace(**sizes, **rates)
    state = script.create_train_state(jax.random.key(0), config, script.model_from_config(config))
    lengths = draw_integers(8, below=11, least=3)
    batch = {
        "token_ids": draw_integers(8, 10, below=40),
        "length": lengths,
        "label": draw_integers(8, below=2).astype(float),
    }
    return script.train_step, (state, batch, {"dropout": jax.random.key(1)})


def _ppo(script: Any) -> Made:
    model = script.models.ActorCritic(num_outputs=6)
    params = model.init(jax.random.key(0), np.zeros((1, 84, 84, 4), np.float32))["params"]
    state = script.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(2.5e-4))
    steps = (draw(8, 84, 84, 4), draw_integers(8, below=6), draw(8), draw(8, seed=1), draw(8, seed=2))
    step = lambda state, steps: script.train_step(state, steps, 4, clip_param=0.1, vf_coeff=0.5, entropy_coeff=0.01)
    return step, (state, steps)


def _molecules(script: Any, model: str = "GraphConvNet") -> Made:
    import jraph

    sizes = {"latent_size": 16, "num_mlp_layers": 2, "message_passing_steps": 2, "num_classes": 8, "dropout_rate": 0.1}
    options = {
        "skip_connections": True,
        "layer_norm": True,
        "use_edge_model": True,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    }
    config = SimpleNamespace(model=model, **sizes, **options)
    counts, edges = np.array([5, 7, 4, 8]), np.array([8, 12, 6, 14])
    offsets = np.repeat(np.cumsum(counts) - counts, edges)
    ends = [draw_integers(40, below=4, seed=seed) + offsets for seed in (1, 2)]
    labels = np.where(draw(4, 8, seed=4) > 1, np.nan, draw(4, 8) > 0)
    graphs = jraph.GraphsTuple(draw(24, 9), draw(40, 3), *ends, globals=labels, n_node=counts, n_edge=edges)
    graphs = jraph.pad_with_graphs(graphs, 32, 48, 8)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    params = jax.jit(script.create_model(config, deterministic=True).init)(keys, script.replace_globals(graphs))
    network = script.create_model(config, deterministic=False)
    tx = script.create_optimizer(config)
    state = script.train_state.TrainState.create(apply_fn=network.apply, params=params, tx=tx)
    return script.train_step, (state, graphs, {"dropout": jax.random.key(2)})


EXAMPLES = {
    "flax vae": JaxExample("flax/examples/vae/train.py", _vae),
    "flax imagenet, resnet 18": JaxExample("flax/examples/imagenet/train.py", _imagenet),
    "flax imagenet, bottlenecks": JaxExample(
        "flax/examples/imagenet/train.py", partial(_imagenet, model_class="ResNet50", stage_sizes=[1, 1])
    ),
    "flax lm1b": JaxExample("flax/examples/lm1b/train.py", _lm1b),
    "flax wmt": JaxExample("flax/examples/wmt/train.py", _wmt),
    "flax nlp_seq": JaxExample("flax/examples/nlp_seq/train.py", _nlp_seq),
    "flax seq2seq": JaxExample("flax/examples/seq2seq/train.py", _seq2seq, dtype="float32"),
    "flax sst2": JaxExample("flax/examples/sst2/train.py", _sst2, dtype="float32"),
    "flax ppo": JaxExample("flax/examples/ppo/ppo_lib.py", _ppo, dtype="float32"),
    "flax ogbg_molpcba, convolution": JaxExample("flax/examples/ogbg_molpcba/train.py", _molecules),
    "flax ogbg_molpcba, graph network": JaxExample(
        "flax/examples/ogbg_molpcba/train.py", partial(_molecules, model="GraphNet")
    ),
}
