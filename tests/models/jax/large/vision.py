"""Models of images: ViT, DiT, and the U-Net of Stable Diffusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from tests.models.jax.large.layers import attend_heads, find_cross_entropy, normalize, widen
from tests.models.jax.large.training import MIXED, LargeModel, Precision, make_model, shape_tree
from tests.shared.parallelism import NUMBER_BYTES

Tree = Any
Find = Callable[..., jax.Array]
"""Return the weight with a name. The further arguments are its shape."""


def _trace_model(
    find_loss: Callable[[Find, Tree], jax.Array], data: Tree, precision: Precision, **size: int
) -> LargeModel:
    """Return a training step. `find_loss(find, data)` calls `find(name, *shape)` for each weight."""
    shapes: dict[str, tuple[int, ...]] = {}

    def find_shape(name: str, *shape: int) -> jax.Array:
        shapes[name] = shape
        return jnp.zeros(shape, precision.weights)

    jax.eval_shape(lambda data: find_loss(find_shape, data), data)
    weights = shape_tree(shapes, precision.weights)
    return make_model(
        lambda weights, data: find_loss(lambda name, *_: weights[name], data), weights, data, precision, **size
    )


def _apply_linear(find: Find, name: str, x: jax.Array, width: int, has_bias: bool = True) -> jax.Array:
    y = x @ find(f"{name}/kernel", x.shape[-1], width)
    return y + find(f"{name}/bias", width) if has_bias else y


def _scale_and_shift(find: Find, name: str, x: jax.Array) -> jax.Array:
    return x * find(f"{name}/scale", x.shape[-1]) + find(f"{name}/shift", x.shape[-1])


def _apply_attention(find: Find, name: str, x: jax.Array, context: jax.Array, heads: int, has_bias: bool) -> jax.Array:
    """Attend from positions of `x` to positions of `context`."""
    width = x.shape[-1]
    split = lambda y: y.reshape(*y.shape[:2], heads, width // heads)  # noqa: E731
    query = split(_apply_linear(find, f"{name}/query", x, width, has_bias))
    key, value = (split(_apply_linear(find, f"{name}/{n}", context, width, has_bias)) for n in ("key", "value"))
    mixed = attend_heads(query, key, value).reshape(x.shape)
    return _apply_linear(find, f"{name}/out", mixed, width)


def _apply_mlp(find: Find, name: str, x: jax.Array, hidden: int) -> jax.Array:
    h = jax.nn.gelu(_apply_linear(find, f"{name}/up", x, hidden))
    return _apply_linear(find, f"{name}/down", h, x.shape[-1])


def _convolve(find: Find, name: str, x: jax.Array, channels: int, extent: int = 3, stride: int = 1) -> jax.Array:
    kernel = find(f"{name}/kernel", extent, extent, x.shape[-1], channels)
    # Strides of 2 follow PyTorch, which pads both sides alike. Patches are not padded.
    padding = "VALID" if extent == stride else [(extent // 2, extent // 2)] * 2
    y = jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + find(f"{name}/bias", channels)


def _embed_time(time: jax.Array, width: int, dtype: Any) -> jax.Array:
    half = width // 2
    frequencies = jnp.exp(-jnp.log(1e4) * jnp.arange(half, dtype=jnp.float32) / half)
    angles = time.astype(jnp.float32)[:, None] * frequencies
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1).astype(dtype)


def _size_layers(batch: int, length: int, layers: int, width: int, hidden: int, heads: int) -> dict[str, int]:
    """Return the size of a Transformer that keeps all activations for the backward pass.

    Beside its input, a layer keeps about seven tensors of size `width`, two of size `hidden`, and scores in float32 and
    bf16.
    """
    tokens = batch * length
    return {
        "samples": batch,
        "layers": layers,
        "tokens": tokens,
        "width": width,
        "layer_all_reduces": 4,
        "kept_bytes": NUMBER_BYTES * layers * tokens * width,
        "inner_bytes": layers * tokens * (NUMBER_BYTES * (7 * width + 2 * hidden) + 6 * heads * length),
    }


def vit(
    batch: int,
    layers: int = 24,
    width: int = 1024,
    heads: int = 16,
    image: int = 224,
    patch: int = 16,
    classes: int = 1000,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of a vision Transformer (Dosovitskiy et al. 2020), by default ViT-L/16."""
    length = (image // patch) ** 2 + 1

    def find_loss(find: Find, data: Tree) -> jax.Array:
        x = _convolve(find, "patches", data["images"], width, patch, patch).reshape(batch, -1, width)
        first = jnp.broadcast_to(find("class", 1, 1, width), (batch, 1, width))
        x = jnp.concatenate([first, x], 1) + find("positions", 1, length, width)
        for n in range(layers):
            h = _scale_and_shift(find, f"{n}/norm_1", normalize(x))
            x = x + _apply_attention(find, f"{n}/attention", h, h, heads, has_bias=True)
            x = x + _apply_mlp(find, f"{n}/mlp", _scale_and_shift(find, f"{n}/norm_2", normalize(x)), 4 * width)
        x = _scale_and_shift(find, "norm", normalize(x[:, 0]))
        return find_cross_entropy(_apply_linear(find, "head", x, classes), data["labels"])

    images = {"images": (batch, image, image, 3)}
    data = {**shape_tree(images, precision.weights), **shape_tree({"labels": (batch,)}, "int32")}
    return _trace_model(find_loss, data, precision, **_size_layers(batch, length, layers, width, 4 * width, heads))


def _shape_latents(batch: int, extent: int, others: Tree, precision: Precision) -> Tree:
    """Return noisy latent images, the noise to predict, a time for each image, and other data."""
    images = {"latents": (batch, extent, extent, 4), "noise": (batch, extent, extent, 4)}
    return {**shape_tree(images, precision.weights), **shape_tree({"time": (batch,)}, "int32"), **others}


def dit(
    batch: int,
    layers: int = 28,
    width: int = 1152,
    heads: int = 16,
    extent: int = 32,
    patch: int = 2,
    classes: int = 1000,
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of a diffusion Transformer (Peebles and Xie 2022), by default DiT-XL/2 for 256 x 256 pixels.

    The model predicts the noise and its variance. The last class stands for images without a class.
    """
    side = extent // patch

    def find_loss(find: Find, data: Tree) -> jax.Array:
        x = _convolve(find, "patches", data["latents"], width, patch, patch).reshape(batch, -1, width)
        x = x + find("positions", 1, side**2, width)
        time = jax.nn.silu(_apply_linear(find, "time/up", _embed_time(data["time"], 256, x.dtype), width))
        condition = _apply_linear(find, "time/down", time, width) + find("classes", classes + 1, width)[data["labels"]]
        condition = jax.nn.silu(condition)[:, None]
        for n in range(layers):
            parts = jnp.split(_apply_linear(find, f"{n}/modulation", condition, 6 * width), 6, -1)
            h = normalize(x) * (1 + parts[0]) + parts[1]
            x = x + parts[2] * _apply_attention(find, f"{n}/attention", h, h, heads, has_bias=True)
            h = normalize(x) * (1 + parts[3]) + parts[4]
            x = x + parts[5] * _apply_mlp(find, f"{n}/mlp", h, 4 * width)
        scale, shift = jnp.split(_apply_linear(find, "modulation", condition, 2 * width), 2, -1)
        x = _apply_linear(find, "out", normalize(x) * (1 + scale) + shift, patch * patch * 8)
        x = x.reshape(batch, side, side, patch, patch, 8).transpose(0, 1, 3, 2, 4, 5).reshape(batch, extent, extent, 8)
        noise, variance = jnp.split(widen(x), 2, -1)
        error = (noise - widen(data["noise"])) ** 2
        likelihood = variance + jax.lax.stop_gradient(error) * jnp.exp(-variance)
        return jnp.mean(error) + 1e-3 * jnp.mean(likelihood)

    data = _shape_latents(batch, extent, shape_tree({"labels": (batch,)}, "int32"), precision)
    return _trace_model(find_loss, data, precision, **_size_layers(batch, side**2, layers, width, 4 * width, heads))


def _normalize_groups(find: Find, name: str, x: jax.Array, groups: int = 32) -> jax.Array:
    wide = widen(x).reshape(*x.shape[:3], groups, -1)
    centred = wide - jnp.mean(wide, (1, 2, 4), keepdims=True)
    y = centred * jax.lax.rsqrt(jnp.mean(centred * centred, (1, 2, 4), keepdims=True) + 1e-5)
    return _scale_and_shift(find, name, y.reshape(x.shape).astype(x.dtype))


def _apply_residual_block(find: Find, name: str, x: jax.Array, time: jax.Array, channels: int) -> jax.Array:
    h = _convolve(find, f"{name}/in", jax.nn.silu(_normalize_groups(find, f"{name}/norm_1", x)), channels)
    h = h + _apply_linear(find, f"{name}/time", jax.nn.silu(time), channels)[:, None, None]
    h = _convolve(find, f"{name}/out", jax.nn.silu(_normalize_groups(find, f"{name}/norm_2", h)), channels)
    return h + (x if x.shape[-1] == channels else _convolve(find, f"{name}/skip", x, channels, 1))


def _apply_spatial_transformer(find: Find, name: str, x: jax.Array, text: jax.Array, heads: int) -> jax.Array:
    batch, height, width, channels = x.shape
    h = _convolve(find, f"{name}/in", _normalize_groups(find, f"{name}/norm", x), channels, 1)
    h = h.reshape(batch, height * width, channels)
    for number, context in enumerate((None, text)):
        y = _scale_and_shift(find, f"{name}/norm_{number}", normalize(h))
        h = h + _apply_attention(find, f"{name}/attention_{number}", y, y if context is None else context, heads, False)
    y = _scale_and_shift(find, f"{name}/norm_2", normalize(h))
    value, gate = jnp.split(_apply_linear(find, f"{name}/up", y, 8 * channels), 2, -1)
    h = h + _apply_linear(find, f"{name}/down", value * jax.nn.gelu(gate), channels)
    return x + _convolve(find, f"{name}/out", h.reshape(x.shape), channels, 1)


def unet(
    batch: int,
    channels: int = 320,
    multiples: Sequence[int] = (1, 2, 4, 4),
    blocks: int = 2,
    heads: int = 8,
    extent: int = 64,
    text_shape: tuple[int, int] = (77, 768),
    precision: Precision = MIXED,
) -> LargeModel:
    """Return a training step of the U-Net of Stable Diffusion 1 (Rombach et al. 2022).

    All levels but the last attend to positions and to the text.
    """
    last = len(multiples) - 1

    def find_loss(find: Find, data: Tree) -> jax.Array:
        text = data["text"]

        def run_block(name: str, x: jax.Array, level: int) -> jax.Array:
            x = _apply_residual_block(find, name, x, time, multiples[level] * channels)
            return x if level == last else _apply_spatial_transformer(find, f"{name}/transformer", x, text, heads)

        x = data["latents"]
        time = jax.nn.silu(_apply_linear(find, "time/up", _embed_time(data["time"], channels, x.dtype), 4 * channels))
        time = _apply_linear(find, "time/down", time, 4 * channels)
        x = _convolve(find, "in", x, channels)
        skips = [x]
        for level in range(last + 1):
            for n in range(blocks):
                x = run_block(f"down/{level}/{n}", x, level)
                skips.append(x)
            if level < last:
                x = _convolve(find, f"down/{level}/smaller", x, x.shape[-1], stride=2)
                skips.append(x)
        x = _apply_residual_block(find, "middle/0", x, time, x.shape[-1])
        x = _apply_spatial_transformer(find, "middle/transformer", x, text, heads)
        x = _apply_residual_block(find, "middle/1", x, time, x.shape[-1])
        for level in reversed(range(last + 1)):
            for n in range(blocks + 1):
                x = run_block(f"up/{level}/{n}", jnp.concatenate([x, skips.pop()], -1), level)
            if level > 0:
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = _convolve(find, f"up/{level}/larger", x, x.shape[-1])
        x = _convolve(find, "out", jax.nn.silu(_normalize_groups(find, "norm", x)), 4)
        return jnp.mean((widen(x) - widen(data["noise"])) ** 2)

    text = shape_tree({"text": (batch, *text_shape)}, precision.weights)
    layers = len(multiples) * (2 * blocks + 1) + 2  # residual blocks
    return _trace_model(
        find_loss, _shape_latents(batch, extent, text, precision), precision, samples=batch, layers=layers
    )
