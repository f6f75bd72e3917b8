from __future__ import annotations

from collections.abc import Callable
from math import prod

import mxnet as mx

from tests.campaigns.fuzz.sample import Growth, Shape

Layer = Callable[[Growth, mx.sym.Symbol, Shape], mx.sym.Symbol | None]
LAYERS: list[Layer] = []


def layer(weight: int = 1, ranks: tuple[int, ...] = (1, 2, 3, 4, 5)) -> Callable[[Layer], Layer]:

    def register(make: Layer) -> Layer:
        LAYERS.extend([lambda grow, x, shape: make(grow, x, shape) if len(shape) in ranks else None] * weight)
        return make

    return register


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


@layer(4, (4, 5))
def convolution(grow, x, shape):
    r = grow.rng
    kernel = tuple(r.choice((1, 2, 3)) for _ in shape[2:])
    pad = tuple(r.randrange(k) for k in kernel)
    dilate = tuple(r.choice((1, 1, 2)) for _ in kernel)
    if any(n + 2 * p <= d * (k - 1) for n, k, p, d in zip(shape[2:], kernel, pad, dilate, strict=True)):
        return None
    groups = r.choice(divisors(shape[1])) if r.random() < 0.3 else 1
    stride = tuple(r.choice((1, 1, 2, 3)) for _ in kernel)
    sizes = {"kernel": kernel, "stride": stride, "pad": pad, "dilate": dilate, "num_group": groups}
    filters, no_bias = groups * r.randint(1, max(1, 12 // groups)), r.random() < 0.5
    return mx.sym.Convolution(x, num_filter=filters, no_bias=no_bias, name=grow.name("conv"), **sizes)


@layer(1, (4,))
def deconvolution(grow, x, shape):
    r = grow.rng
    kernel, stride, pad = r.choice((2, 3, 4)), r.choice((1, 2)), r.randrange(2)
    if max(shape[2:]) > 12 or min(shape[2:]) == 1:
        return None
    groups = r.choice(divisors(shape[1])) if r.random() < 0.3 else 1
    sizes = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2, "adj": (r.randrange(stride),) * 2}
    return mx.sym.Deconvolution(
        x,
        num_filter=groups * r.randint(1, 4),
        num_group=groups,
        no_bias=r.random() < 0.6,
        name=grow.name("deconv"),
        **sizes,
    )


@layer(1, (3,))
def convolution_in_time(grow, x, shape):
    kernel = grow.rng.choice((1, 2, 3))
    if shape[2] < kernel:
        return None
    sizes = {"kernel": (kernel,), "stride": (grow.rng.choice((1, 2)),), "pad": (kernel // 2,)}
    return mx.sym.Convolution(x, num_filter=grow.rng.randint(1, 9), name=grow.name("conv"), **sizes)


@layer(2, (4, 5))
def pooling(grow, x, shape):
    r = grow.rng
    kind, space = r.choice(("max", "avg", "sum", "lp")), len(shape) - 2
    if r.random() < 0.2 and kind != "lp":
        return mx.sym.Pooling(x, global_pool=True, kernel=(1,) * space, pool_type=kind)
    kernel = r.choice((2, 3))
    if min(shape[2:]) < kernel:
        return None
    if kind == "max" and r.random() < 0.5:
        x = x - 2  # below the value of padding
    strides, pad = (r.choice((1, 2)), *(1,) * (space - 1)), (r.randrange(kernel - 1),) * space
    return mx.sym.Pooling(
        x,
        kernel=(kernel,) * space,
        stride=strides,
        pad=pad,
        pool_type=kind,
        p_value=2,
        count_include_pad=r.random() < 0.5,
        pooling_convention=r.choice(("valid", "full")),
    )


@layer(2, (2, 3, 4))
def batch_norm(grow, x, shape):
    axis = grow.rng.choice((1, 1, 1, -1))
    if prod(shape) < 4 * shape[axis]:
        return None
    choices = {"fix_gamma": grow.rng.random() < 0.5, "use_global_stats": grow.rng.random() < 0.15}
    return mx.sym.BatchNorm(x, axis=axis, eps=1e-2, name=grow.name("bn"), **choices)[0]


@layer()
def layer_norm(grow, x, shape):
    axis = grow.rng.randrange(len(shape))
    gamma, beta = (grow.parameter(shape[axis], kind=kind) for kind in ("gamma", "beta"))
    return mx.sym.LayerNorm(x, gamma, beta, axis=axis, eps=1e-2) if shape[axis] > 2 else None


@layer(1, (3, 4))
def group_norm(grow, x, shape):
    groups = grow.rng.choice(divisors(shape[1]))
    gamma, beta = (grow.parameter(groups, kind=kind) for kind in ("gamma", "beta"))
    enough = prod(shape[1:]) > 2 * groups
    return mx.sym.GroupNorm(x, gamma, beta, num_groups=groups, eps=1e-2) if enough else None


ELEMENTWISE = (
    *(
        lambda x, act=act: mx.sym.Activation(x, act_type=act)
        for act in ("relu", "tanh", "sigmoid", "softrelu", "softsign")
    ),
    *(lambda x, act=act: mx.sym.LeakyReLU(x, act_type=act) for act in ("leaky", "elu", "selu", "gelu")),
    mx.sym.sin,
    mx.sym.arctan,
    mx.sym.erf,
    mx.sym.abs,
    mx.sym.relu,
    mx.sym.identity,
    lambda x: mx.sym.sqrt(x * x + 1),
    lambda x: mx.sym.log(1 / (1 + x * x)),
    lambda x: mx.sym.clip(1.5 - x, -0.7, 0.8),
    lambda x: mx.sym.smooth_l1(x, scalar=1.5),
    lambda x: mx.sym.maximum(x, 0.1 * x),
    lambda x: mx.sym.BlockGrad(x) + 0.5 * x,
)


@layer(4)
def cell_by_cell(grow, x, shape):
    return grow.rng.choice(ELEMENTWISE)(x)


@layer(1)
def softmax(grow, x, shape):
    axis = grow.rng.randrange(len(shape))
    return grow.rng.choice((mx.sym.softmax, mx.sym.log_softmax, mx.sym.softmin))(x, axis=axis)


@layer(3, (2, 3, 4, 5))
def dense(grow, x, shape):
    r = grow.rng
    flatten, bias = r.random() < 0.5, r.random() < 0.6
    width = r.choice((1, 3, 5, 8, 12, 17))
    return mx.sym.FullyConnected(x, num_hidden=width, flatten=flatten, no_bias=not bias, name=grow.name("fc"))


@layer(3)
def reshape(grow, x, shape):
    r = grow.rng
    d = r.randrange(len(shape))
    factors = divisors(shape[d])[1:-1]
    ones = [i for i, extent in enumerate(shape) if extent == 1]
    options = [lambda: mx.sym.Reshape(x, shape=(-1,))]
    if len(shape) > 1:
        options += [lambda: mx.sym.Reshape(x, shape=(-3,) + (0,) * (len(shape) - 2)), lambda: mx.sym.Flatten(x)]
    if len(shape) < 5:
        options.append(lambda: mx.sym.expand_dims(x, axis=d))
    if len(shape) < 5 and factors:
        split = (-4, r.choice(factors), -1)
        options.append(lambda: mx.sym.Reshape(x, shape=(0,) * d + split + (0,) * (len(shape) - d - 1)))
    if len(shape) > 1 and ones:
        options.append(lambda: mx.sym.squeeze(x, axis=ones[0]))
    return r.choice(options)()


@layer(2, (2, 3, 4, 5))
def transpose(grow, x, shape):
    axes = list(range(len(shape)))
    grow.rng.shuffle(axes)
    return grow.rng.choice(
        (lambda: mx.sym.transpose(x, axes=axes), lambda: mx.sym.SwapAxis(x, dim1=axes[0], dim2=axes[1]))
    )()


@layer(3)
def cut_or_repeat(grow, x, shape):
    r = grow.rng
    d = r.randrange(len(shape))
    begin = tuple(r.randrange(extent) for extent in shape)
    end = tuple(r.randint(first + 1, extent) for first, extent in zip(begin, shape, strict=True))
    pads = (0,) * 4 + tuple(r.randrange(3) for _ in range(2 * len(shape) - 4))
    options = [
        lambda: mx.sym.slice_axis(x, axis=d, begin=begin[d], end=end[d]),
        lambda: mx.sym.slice(x, begin=begin, end=end),
        lambda: mx.sym.slice(x, begin=(None,) * d + (0,), end=(None,) * d + (None,), step=(None,) * d + (2,)),
        lambda: mx.sym.reverse(x, axis=d),
        lambda: mx.sym.repeat(x, repeats=2, axis=d),
        lambda: mx.sym.tile(x, reps=tuple(2 if i == d else 1 for i in range(len(shape)))),
    ]
    if len(shape) in (4, 5):
        options.append(lambda: mx.sym.Pad(x, mode=r.choice(("constant", "edge")), pad_width=pads, constant_value=0.3))
    if len(shape) == 4:
        options.append(lambda: mx.sym.UpSampling(x, scale=2, sample_type="nearest"))
    return r.choice(options)()


@layer()
def split(grow, x, shape):
    ways = [(d, n) for d, extent in enumerate(shape) for n in (2, 3, 4) if extent % n == 0]
    if not ways:
        return None
    axis, parts = grow.rng.choice(ways)
    return mx.sym.SliceChannel(x, axis=axis, num_outputs=parts, squeeze_axis=len(shape) > 1 and shape[axis] == parts)


@layer(2)
def join(grow, x, shape):
    d = grow.rng.randrange(len(shape))
    fitting = grow.others(lambda s: s[:d] == shape[:d] and s[d + 1 :] == shape[d + 1 :] and len(s) == len(shape))
    return mx.sym.Concat(x, *grow.rng.choices(fitting, k=grow.rng.randint(1, 3)), dim=d, name=grow.name("concat"))


@layer()
def stack(grow, x, shape):
    fitting = grow.others(lambda s: s == shape)
    axis = grow.rng.randrange(len(shape) + 1)
    return mx.sym.stack(x, grow.rng.choice(fitting), axis=axis) if len(shape) < 5 else None


def broadcasts(one: Shape, other: Shape) -> bool:
    return len(one) == len(other) and all(1 in pair or len(set(pair)) == 1 for pair in zip(one, other, strict=True))


BINARY = ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum", "broadcast_minimum")


@layer(3)
def combine(grow, x, shape):
    r = grow.rng
    name = r.choice(BINARY)
    if r.random() < 0.3:
        return getattr(mx.sym, name)(x, grow.parameter(*(extent if r.random() < 0.6 else 1 for extent in shape)))
    equal = grow.others(lambda s: s == shape)
    if r.random() < 0.5:
        return mx.sym.add_n(x, r.choice(equal), x)
    return getattr(mx.sym, name)(x, r.choice(grow.others(lambda s: broadcasts(s, shape))))


@layer(2, (2, 3, 4, 5))
def reduce(grow, x, shape):
    r = grow.rng
    axes = tuple(sorted(r.sample(range(len(shape)), r.randint(1, len(shape) - 1))))
    name = r.choice(("sum", "mean", "max", "min", "prod", "nansum", "norm"))
    if name == "norm":
        return mx.sym.norm(x + 0.01, ord=r.choice((1, 2)), axis=axes[0], keepdims=r.random() < 0.5)
    return getattr(mx.sym, name)(x, axis=axes, keepdims=r.random() < 0.5)


@layer(1, (2,))
def product(grow, x, shape):
    left, right = grow.rng.random() < 0.5, grow.rng.random() < 0.5
    inner, width = shape[0 if left else 1], grow.rng.choice((2, 5, 7))
    other = grow.parameter(*((width, inner) if right else (inner, width)))
    return mx.sym.dot(x, other, transpose_a=left, transpose_b=right)


@layer(1, (3,))
def batched_product(grow, x, shape):
    left, right = grow.rng.random() < 0.5, grow.rng.random() < 0.5
    inner, width = shape[1 if left else 2], grow.rng.choice((2, 5))
    other = grow.parameter(shape[0], *((width, inner) if right else (inner, width)))
    return grow.rng.choice((mx.sym.batch_dot, mx.sym.linalg.gemm2))(x, other, transpose_a=left, transpose_b=right)


@layer(2)
def look_up(grow, x, shape):
    r = grow.rng
    d = r.randrange(len(shape))
    rest = shape[:d] + shape[d + 1 :]
    classes = r.choice((7, 12, 19))
    options = [
        lambda: mx.sym.take(x, grow.labels(shape[d], r.randint(1, 6)), axis=d, mode=r.choice(("clip", "wrap"))),
        lambda: mx.sym.where(grow.labels(2, *shape), x, mx.sym.sin(x)),
        lambda: mx.sym.Embedding(
            grow.labels(classes, shape[0], 3), grow.parameter(classes, 6), input_dim=classes, output_dim=6
        ),
        lambda: mx.sym.one_hot(grow.labels(6, *shape[:2]), depth=6, on_value=0.5, dtype="float64"),
    ]
    if rest:
        options.append(lambda: mx.sym.pick(x, grow.labels(shape[d], *rest), axis=d))
    return r.choice(options)()


@layer(1, (3,))
def sequence(grow, x, shape):
    lengths = grow.labels(shape[0], shape[1]) + 1
    choose = grow.rng.choice((mx.sym.SequenceMask, mx.sym.SequenceLast, mx.sym.SequenceReverse))
    return choose(x, lengths, use_sequence_length=True)


@layer(1)
def along(grow, x, shape):
    d = grow.rng.randrange(len(shape))
    options = [
        lambda: mx.sym.cumsum(x, axis=d),
        lambda: mx.sym.sort(x, axis=d),
        lambda: mx.sym.topk(x, axis=d, k=min(2, shape[d]), ret_typ="value"),
        lambda: mx.sym.broadcast_axis(mx.sym.sum(x, axis=d, keepdims=True), axis=d, size=3),
    ]
    return grow.rng.choice(options)()


@layer(1, (2,))
def short_recurrence(grow, x, shape):
    width = grow.rng.choice((3, 4, 6))
    state = mx.sym.slice_axis(mx.sym.tile(0 * x, reps=(1, width)), axis=1, begin=0, end=width)
    weights = [grow.parameter(width, n) for n in (shape[1], width)]
    for step in range(grow.rng.randint(2, 3)):
        inputs = (1 + 0.1 * step) * x, state
        terms = [
            mx.sym.FullyConnected(i, w, num_hidden=width, no_bias=True) for i, w in zip(inputs, weights, strict=True)
        ]
        state = mx.sym.tanh(terms[0] + terms[1])
    return state


NORMALIZATIONS = ("null", "batch", "valid")


def head(grow: Growth, x: mx.sym.Symbol, shape: Shape) -> mx.sym.Symbol:
    r = grow.rng
    if len(shape) > 1 and r.random() < 0.4:
        return softmax_output(grow, x, shape)
    if r.random() < 0.5:
        return mx.sym.MakeLoss(mx.sym.mean(mx.sym.square(x)))
    return mx.sym.MakeLoss(mx.sym.sin(x), normalization=r.choice(NORMALIZATIONS), valid_thresh=0.1)


def softmax_output(grow: Growth, x: mx.sym.Symbol, shape: Shape) -> mx.sym.Symbol:
    r = grow.rng
    form = r.choice(("multi_output", "preserve_shape")) if len(shape) > 2 else ""
    lines = r.choice((shape[2:], (prod(shape[2:]),))) if form == "multi_output" else shape[1:-1]
    classes = shape[1] if form == "multi_output" else shape[-1]
    return mx.sym.SoftmaxOutput(
        x,
        grow.labels(classes, shape[0], *lines),
        normalization=r.choice(NORMALIZATIONS),
        use_ignore=r.random() < 0.4,
        ignore_label=r.randrange(classes),
        **({form: True} if form else {}),
    )


def add_layer(grow: Growth) -> None:
    made = grow.rng.choice(LAYERS)(grow, *grow.latest())
    if made is not None:
        grow.add(made)


def grow_layers(grow: Growth) -> mx.sym.Symbol:
    batch = grow.rng.choice((2, 3, 4, 5, 6, 8, 9))
    for _ in range(grow.rng.randint(1, 3)):
        shape = (batch, *(grow.rng.randint(2, 12) for _ in range(grow.rng.choice((1, 2, 3, 3)))))
        grow.tensors.append((mx.sym.broadcast_mul(grow.data(*shape), grow.parameter(*((1,) * len(shape)))), shape))
    for _ in range(grow.rng.randint(5, 26)):
        add_layer(grow)
    return mx.sym.Group([head(grow, *tensor) for tensor in grow.tensors[-grow.rng.randint(1, 3) :]])


WINDOWS = (convolution, convolution, pooling, pooling, deconvolution, cut_or_repeat, batch_norm, cell_by_cell)
VOLUMES = (convolution, pooling, pooling, cut_or_repeat, cell_by_cell)


def grow_windows(grow: Growth) -> mx.sym.Symbol:
    is_volume = grow.rng.random() < 0.3
    space = (
        [grow.rng.randint(4, 7) for _ in range(3)] if is_volume else [grow.rng.randint(6, 16), grow.rng.randint(1, 16)]
    )
    shape = (grow.rng.choice((1, 2, 3)), grow.rng.randint(1, 4), *space)
    scale = grow.parameter(*(extent if d == 1 else 1 for d, extent in enumerate(shape)))
    grow.tensors.append((mx.sym.broadcast_mul(grow.data(*shape), scale), shape))
    for _ in range(grow.rng.randint(2, 6)):
        x, there = grow.tensors[-1]
        make = grow.rng.choice(VOLUMES if is_volume else WINDOWS)
        made = make(grow, x, there) if len(there) == len(shape) else None
        if made is not None:
            grow.add(made)
    return mx.sym.Group([head(grow, *grow.tensors[-1])])
