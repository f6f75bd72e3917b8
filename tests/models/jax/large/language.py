"""Language models: Llama, Mixtral, GPT-3, Llama with LoRA, and a step of Llama that draws tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tests.models.jax.large.layers import (
    attend,
    attend_heads,
    find_cross_entropy,
    mask_later,
    normalize,
    normalize_rms,
    repeat_shapes,
    rotate,
    run_layers,
    widen,
)
from tests.models.jax.large.training import (
    MIXED,
    LargeModel,
    Loss,
    Precision,
    count_parameters,
    make_model,
    make_state,
    shape_tree,
    train,
)
from tests.shared.parallelism import NUMBER_BYTES

Tree = Any


@dataclass(frozen=True)
class LlamaSize:
    """Numbers of layers, features, features of the feed-forward network, heads, and heads of keys."""

    layers: int
    width: int
    hidden: int
    heads: int
    groups: int

    @property
    def head(self) -> int:
        return self.width // self.heads


def _shape_attention(size: LlamaSize) -> dict[str, tuple[int, ...]]:
    width, queries = size.width, (size.groups, size.heads // size.groups, size.head)
    shapes = {"query": (width, *queries), "out": (*queries, width), "scale_1": (width,), "scale_2": (width,)}
    return {**shapes, **dict.fromkeys(("key", "value"), (width, size.groups, size.head))}


def _shape_feed_forward(width: int, hidden: int) -> dict[str, tuple[int, ...]]:
    return {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}


def _shape_ends(width: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    return {"embedding": (vocabulary, width), "scale": (width,), "head": (width, vocabulary)}


def _multiply(x: jax.Array, w: jax.Array) -> jax.Array:
    """Multiply x (..., n) by w (n, heads, elements)."""
    return jax.lax.dot_general(x, w, (((x.ndim - 1,), (0,)), ((), ())))


def _feed_forward(x: jax.Array, w: Tree) -> jax.Array:
    return (jax.nn.silu(x @ w["gate"]) * (x @ w["up"])) @ w["down"]


def _attend_to_earlier(x: jax.Array, w: Tree) -> jax.Array:
    """Add causal attention with rotated queries and keys, and with LoRA's adapters if the layer has some."""
    h = normalize_rms(x, w["scale_1"])
    positions = jnp.arange(x.shape[1])
    q, k, v = (_multiply(h, w[name]) for name in ("query", "key", "value"))
    if "query_down" in w:
        q = q + _multiply(h @ w["query_down"], w["query_up"])
        v = v + _multiply(h @ w["value_down"], w["value_up"])
    mixed = attend(rotate(q, positions), rotate(k, positions), v, mask_later(x.shape[1]))
    return x + jnp.einsum("btgne,gned->btd", mixed, w["out"])


def _run_llama_layer(x: jax.Array, w: Tree) -> jax.Array:
    x = _attend_to_earlier(x, w)
    return x + _feed_forward(normalize_rms(x, w["scale_2"]), w)


def _find_llama_loss(run_layer: Any, weights: Tree, data: Tree) -> jax.Array:
    x = run_layers(run_layer, weights["embedding"][data["tokens"]], weights["layers"])
    return find_cross_entropy(normalize_rms(x, weights["scale"]) @ weights["head"], data["targets"])


def _make_transformer(
    loss: Loss, shapes: Tree, precision: Precision, batch: int, length: int, size: LlamaSize, vocabulary: int
) -> LargeModel:
    """Return a model of tokens whose layers are recomputed, with weights of the given shapes.

    One layer has four tensors of the width, three of the hidden width, and scores in float32 and twice in bf16. The
    loss has logits and their gradients in float32.
    """
    tokens = batch * length
    layer = tokens * (NUMBER_BYTES * (4 * size.width + 3 * size.hidden) + 8 * size.heads * length)
    return make_model(
        loss,
        shape_tree(shapes, precision.weights),
        shape_tree({"tokens": (batch, length), "targets": (batch, length)}, "int32"),
        precision,
        samples=batch,
        layers=size.layers,
        tokens=tokens,
        width=size.width,
        kept_bytes=NUMBER_BYTES * size.layers * tokens * size.width,
        inner_bytes=max(layer, 8 * tokens * vocabulary),
    )


def llama(
    batch: int,
    size: LlamaSize,
    vocabulary: int = 128_256,
    length: int = 4096,
    is_scanned: bool = True,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of Llama 3 (Grattafiori et al. 2024)."""
    layer = {**_shape_attention(size), **_shape_feed_forward(size.width, size.hidden)}
    shapes = {**_shape_ends(size.width, vocabulary), "layers": repeat_shapes(layer, size.layers, is_scanned)}
    loss = partial(_find_llama_loss, _run_llama_layer)
    return _make_transformer(loss, shapes, precision, batch, length, size, vocabulary)


def lora(
    batch: int,
    size: LlamaSize,
    rank: int = 8,
    vocabulary: int = 128_256,
    length: int = 4096,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a step that trains low-rank adapters of queries and values (Hu et al. 2021). Llama's weights are frozen."""
    base = llama(batch, size, vocabulary, length, precision=precision)
    added = {
        **dict.fromkeys(("query_down", "value_down"), (size.layers, size.width, rank)),
        "query_up": (size.layers, rank, size.groups, size.heads // size.groups, size.head),
        "value_up": (size.layers, rank, size.groups, size.head),
    }
    adapters = shape_tree(added, precision.weights)

    def find_loss(adapters: Tree, data: Tree) -> jax.Array:
        weights = {**data["weights"], "layers": {**data["weights"]["layers"], **adapters}}
        return _find_llama_loss(_run_llama_layer, weights, data)

    numbers = replace(base.size, trained=count_parameters(adapters), frozen=base.size.trained)
    data = {**base.data, "weights": base.weights}
    return LargeModel(train(find_loss), make_state(adapters, precision), data, (base.weights, adapters), numbers)


def decode(
    batch: int, size: LlamaSize, vocabulary: int = 128_256, positions: int = 8192, precision: Precision = MIXED
) -> LargeModel:
    """Return a step of Llama that draws the most probable token of each sequence, with a key-value cache."""
    base = llama(batch, size, vocabulary, precision=precision)
    cached = (size.layers, batch, positions, size.groups, size.head)
    cache = shape_tree({"keys": cached, "values": cached}, precision.weights)

    def run_layer(x: jax.Array, layer: Tree, position: jax.Array) -> tuple[jax.Array, Tree]:
        w, keys, values = layer
        h = normalize_rms(x, w["scale_1"])
        q, k = (rotate(h_, position[None]) for h_ in (_multiply(h, w["query"]), _multiply(h, w["key"])))
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k, position, 1)
        values = jax.lax.dynamic_update_slice_in_dim(values, _multiply(h, w["value"]), position, 1)
        mixed = attend(q, keys, values, jnp.arange(positions) <= position)
        x = x + jnp.einsum("btgne,gned->btd", mixed, w["out"])
        return x + _feed_forward(normalize_rms(x, w["scale_2"]), w), (keys, values)

    def step(state: Tree, weights: Tree) -> tuple[Tree, jax.Array]:
        x = weights["embedding"][state["token"]][:, None]
        layers = weights["layers"], state["cache"]["keys"], state["cache"]["values"]
        x, (keys, values) = jax.lax.scan(lambda x, layer: run_layer(x, layer, state["position"]), x, layers)
        token = jnp.argmax(normalize_rms(x[:, 0], weights["scale"]) @ weights["head"], -1).astype("int32")
        return {"cache": {"keys": keys, "values": values}, "token": token, "position": state["position"] + 1}, token

    state = {"cache": cache, **shape_tree({"token": (batch,), "position": ()}, "int32")}
    numbers = replace(base.size, trained=0, frozen=base.size.trained, tokens=batch, layer_all_reduces=2, weight_reads=1)
    data_bytes = NUMBER_BYTES * count_parameters(cache)
    numbers = replace(numbers, kept_bytes=0, inner_bytes=0, data_bytes=data_bytes)
    return LargeModel(step, state, base.weights, base.weights, numbers)


def dispatch(chances: jax.Array, capacity: int) -> jax.Array:
    """Return the weight of each token in each place of each expert: (batch, token, expert, place).

    A token asks its two most probable experts. If all places of an expert are taken, the token is dropped there.
    """
    batch, length, experts = chances.shape
    weights, chosen = jax.lax.top_k(chances, 2)
    weights = weights / jnp.sum(weights, -1, keepdims=True)
    asked = jax.nn.one_hot(chosen, experts, dtype="int32")
    place = jnp.cumsum(asked.reshape(batch, 2 * length, experts), 1).reshape(asked.shape) * asked - 1
    # one_hot yields zeros for -1 (experts that a token does not request) and for positions beyond the capacity.
    return jnp.sum(jax.nn.one_hot(place, capacity, dtype=chances.dtype) * weights[..., None, None], 2)


def mixtral(
    batch: int,
    size: LlamaSize,
    experts: int = 8,
    vocabulary: int = 32_000,
    length: int = 4096,
    capacity_factor: float = 1.25,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of Mixtral (Jiang et al. 2024), whose experts take a limited number of tokens of a sequence."""
    feed_forward = {name: (experts, *shape) for name, shape in _shape_feed_forward(size.width, size.hidden).items()}
    layer = {**_shape_attention(size), **feed_forward, "router": (size.width, experts)}
    shapes = {**_shape_ends(size.width, vocabulary), "layers": repeat_shapes(layer, size.layers, is_scanned=True)}
    capacity = int(capacity_factor * 2 * length / experts)

    def run_layer(x: jax.Array, w: Tree) -> jax.Array:
        x = _attend_to_earlier(x, w)
        h = normalize_rms(x, w["scale_2"])
        taken = dispatch(jax.nn.softmax(widen(h @ w["router"])), capacity).astype(h.dtype)
        queues = jnp.einsum("btec,btd->becd", (taken > 0).astype(h.dtype), h)
        gate, up = (jnp.einsum("becd,edf->becf", queues, w[name]) for name in ("gate", "up"))
        results = jnp.einsum("becf,efd->becd", jax.nn.silu(gate) * up, w["down"])
        return x + jnp.einsum("btec,becd->btd", taken, results)

    loss, in_queues = partial(_find_llama_loss, run_layer), replace(size, hidden=int(2 * capacity_factor * size.hidden))
    return _make_transformer(loss, shapes, precision, batch, length, in_queues, vocabulary)


def gpt(
    batch: int,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int = 50_257,
    length: int = 2048,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of GPT-3 (Brown et al. 2020) with scanned layers. The head is the embedding."""
    head = width // heads
    layer = {
        **dict.fromkeys(("query", "key", "value"), (width, heads, head)),
        **dict.fromkeys(("query_bias", "key_bias", "value_bias"), (heads, head)),
        "out": (heads, head, width),
        "up": (width, 4 * width),
        "up_bias": (4 * width,),
        "down": (4 * width, width),
        **dict.fromkeys(("out_bias", "down_bias", "scale_1", "shift_1", "scale_2", "shift_2"), (width,)),
    }
    ends = {"embedding": (vocabulary, width), "positions": (length, width), "scale": (width,), "shift": (width,)}
    shapes = {**ends, "layers": repeat_shapes(layer, layers, is_scanned=True)}

    def run_layer(x: jax.Array, w: Tree) -> jax.Array:
        h = normalize(x) * w["scale_1"] + w["shift_1"]
        q, k, v = (_multiply(h, w[name]) + w[f"{name}_bias"] for name in ("query", "key", "value"))
        mixed = attend_heads(q, k, v, mask_later(length))
        x = x + jnp.einsum("bthe,hed->btd", mixed, w["out"]) + w["out_bias"]
        h = normalize(x) * w["scale_2"] + w["shift_2"]
        return x + jax.nn.gelu(h @ w["up"] + w["up_bias"]) @ w["down"] + w["down_bias"]

    def find_loss(weights: Tree, data: Tree) -> jax.Array:
        x = run_layers(run_layer, weights["embedding"][data["tokens"]] + weights["positions"], weights["layers"])
        logits = (normalize(x) * weights["scale"] + weights["shift"]) @ weights["embedding"].T
        return find_cross_entropy(logits, data["targets"])

    size = LlamaSize(layers, width, 4 * width, heads, heads)
    return _make_transformer(find_loss, shapes, precision, batch, length, size, vocabulary)
