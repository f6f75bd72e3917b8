from __future__ import annotations

from typing import Any

import mxnet as mx

from tests.models.paper.model import PaperModel


def transformer(
    layers: int,
    hidden: int = 1024,
    heads: int = 16,
    batch: int = 16,
    *,
    length: int = 512,
    vocabulary: int = 32768,
    heads_first: bool = False,
    experts: int = 0,
    dtype: str = "float32",
) -> PaperModel:
    """Return an encoder.

    The products of the attention run over (batch, head) as one dimension. `heads_first` makes it (head, batch), which
    can be split by heads, as in Megatron-LM. With `experts`, every second layer is a mixture of experts as in a Switch
    Transformer (Fedus et al. 2021). Each expert takes up to 1.25 times its share of tokens; the other tokens skip the
    layer.
    """
    tokens = batch * length
    net = mx.sym.Embedding(
        mx.sym.Variable("data"), input_dim=vocabulary, output_dim=hidden, dtype=dtype, name="embedding"
    )
    net = mx.sym.Reshape(net, shape=(tokens, hidden), name="tokens")
    for layer in range(layers):
        name = f"layer{layer}"
        net = net + _attend(_normalise(net, f"{name}_attention"), name, batch, length, hidden, heads, heads_first)
        normalised = _normalise(net, f"{name}_feed")
        if experts and layer % 2:
            net = net + _feed_experts(normalised, name, batch, length, hidden, experts, dtype)
        else:
            net = net + _feed_forward(normalised, name, hidden)
    scores = mx.sym.FullyConnected(_normalise(net, "last"), num_hidden=vocabulary, name="decoder")
    symbol = mx.sym.SoftmaxOutput(scores, name="softmax", normalization="batch")
    return PaperModel(
        f"Transformer-{layers}{' (heads first)' if heads_first else ''}{f', {experts} experts' if experts else ''}",
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


def _feed_experts(net: Any, name: str, batch: int, length: int, hidden: int, experts: int, dtype: str) -> Any:
    places = -(-5 * length // (4 * experts))  # of each expert, in a sequence
    gates = mx.sym.softmax(mx.sym.FullyConnected(net, num_hidden=experts, name=f"{name}_gate"), axis=-1)
    gates = mx.sym.Reshape(gates, shape=(batch, length, experts), name=f"{name}_gates")
    chosen = mx.sym.one_hot(mx.sym.argmax(gates, axis=2), depth=experts, dtype=dtype, name=f"{name}_chosen")
    before = mx.sym.cumsum(chosen, axis=1, name=f"{name}_before")
    place = mx.sym.one_hot(mx.sym.sum(chosen * before, axis=2) - 1, depth=places, dtype=dtype, name=f"{name}_place")
    sent = mx.sym.broadcast_mul(
        mx.sym.expand_dims(chosen, axis=3), mx.sym.expand_dims(place, axis=2), name=f"{name}_sent"
    )
    sent = mx.sym.Reshape(sent, shape=(batch, length, experts * places), name=f"{name}_sent_flat")
    tokens = mx.sym.Reshape(net, shape=(batch, length, hidden), name=f"{name}_sequences")
    given = mx.sym.batch_dot(sent, tokens, transpose_a=True, name=f"{name}_given")
    given = _by_expert(given, (batch, experts), (places, hidden), f"{name}_given")
    widen = mx.sym.Variable(f"{name}_widen_weight", shape=(experts, hidden, 4 * hidden))
    narrow = mx.sym.Variable(f"{name}_narrow_weight", shape=(experts, 4 * hidden, hidden))
    wide = mx.sym.LeakyReLU(mx.sym.batch_dot(given, widen, name=f"{name}_widen"), act_type="gelu", name=f"{name}_gelu")
    made = mx.sym.batch_dot(wide, narrow, name=f"{name}_narrow")
    made = _by_expert(made, (experts, batch), (places, hidden), f"{name}_made", back=True)
    returned = mx.sym.batch_dot(sent, made, name=f"{name}_returned")
    weighed = mx.sym.broadcast_mul(returned, mx.sym.sum(gates * chosen, axis=2, keepdims=True), name=f"{name}_weighed")
    return mx.sym.Reshape(weighed, shape=(batch * length, hidden), name=f"{name}_tokens")


def _by_expert(net: Any, outer: tuple[int, int], inner: tuple[int, int], name: str, back: bool = False) -> Any:
    """Convert (sequences, slots of all experts, hidden) to (experts, slots of all sequences, hidden), or back."""
    (first, second), (places, hidden) = outer, inner
    apart = mx.sym.Reshape(net, shape=(first, second, places, hidden), name=f"{name}_apart")
    turned = mx.sym.transpose(apart, axes=(1, 0, 2, 3), name=f"{name}_turned")
    return mx.sym.Reshape(turned, shape=(second, first * places, hidden), name=f"{name}_{'back' if back else 'flat'}")
