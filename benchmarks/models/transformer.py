"""Transformer encoders: self-attention and a feed-forward part in every layer, normalised before each."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from benchmarks.models.model import Model


def transformer(
    layers: int,
    hidden: int = 1024,
    heads: int = 16,
    batch: int = 16,
    *,
    length: int = 512,
    vocabulary: int = 32768,
    heads_first: bool = False,
    dtype: str = "float32",
) -> Model:
    """An encoder over `length` tokens that predicts every token of the output.

    The products of the attention run over (batch, head) as one dimension. `heads_first` makes it (head, batch), so that it can be
    split by heads, as Megatron-LM does; the other way it can be split by batch.
    """
    tokens = batch * length
    net = mx.sym.Embedding(
        mx.sym.Variable("data"), input_dim=vocabulary, output_dim=hidden, dtype=dtype, name="embedding"
    )
    net = mx.sym.Reshape(net, shape=(tokens, hidden), name="tokens")
    for layer in range(layers):
        name = f"layer{layer}"
        net = net + _attend(_normalise(net, f"{name}_attention"), name, batch, length, hidden, heads, heads_first)
        net = net + _feed_forward(_normalise(net, f"{name}_feed"), name, hidden)
    scores = mx.sym.FullyConnected(_normalise(net, "last"), num_hidden=vocabulary, name="decoder")
    symbol = mx.sym.SoftmaxOutput(scores, name="softmax", normalization="batch")
    return Model(
        f"Transformer-{layers}{' (heads first)' if heads_first else ''}",
        symbol,
        {"data": (batch, length), "softmax_label": (tokens,)},
    )


def _normalise(net: Any, name: str) -> Any:
    return mx.sym.LayerNorm(net, axis=-1, name=f"{name}_norm")


def _attend(net: Any, name: str, batch: int, length: int, hidden: int, heads: int, heads_first: bool) -> Any:
    there, back = ((2, 0, 1, 3), (1, 2, 0, 3)) if heads_first else ((0, 2, 1, 3), (0, 2, 1, 3))
    groups = (heads, batch) if heads_first else (batch, heads)

    def project(role: str) -> Any:
        projected = mx.sym.FullyConnected(net, num_hidden=hidden, name=f"{name}_{role}")
        split = mx.sym.Reshape(projected, shape=(batch, length, heads, hidden // heads), name=f"{name}_{role}_split")
        turned = mx.sym.transpose(split, axes=there, name=f"{name}_{role}_heads")
        return mx.sym.Reshape(turned, shape=(batch * heads, length, hidden // heads), name=f"{name}_{role}_batch")

    scores = mx.sym.batch_dot(project("query"), project("key"), transpose_b=True, name=f"{name}_scores")
    weights = mx.sym.softmax(scores * (hidden // heads) ** -0.5, axis=-1, name=f"{name}_weights")
    mixed = mx.sym.batch_dot(weights, project("value"), name=f"{name}_mixed")
    mixed = mx.sym.Reshape(mixed, shape=(*groups, length, hidden // heads), name=f"{name}_mixed_split")
    mixed = mx.sym.transpose(mixed, axes=back, name=f"{name}_mixed_heads")
    mixed = mx.sym.Reshape(mixed, shape=(batch * length, hidden), name=f"{name}_mixed_tokens")
    return mx.sym.FullyConnected(mixed, num_hidden=hidden, name=f"{name}_output")


def _feed_forward(net: Any, name: str, hidden: int) -> Any:
    net = mx.sym.FullyConnected(net, num_hidden=4 * hidden, name=f"{name}_widen")
    net = mx.sym.LeakyReLU(net, act_type="gelu", name=f"{name}_gelu")
    return mx.sym.FullyConnected(net, num_hidden=hidden, name=f"{name}_narrow")
