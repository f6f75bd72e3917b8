"""Small semantic graphs: a plain description for the core and the brute-force model, and random generators."""

import random
from dataclasses import dataclass, field

from tofu import _core

CONCAT, REDUCE, REPLICATE, OVERLAP_ADD = range(4)
ELEMENTWISE_LABEL = 7
KINDS = (
    *("matmul", "matmul", "elementwise", "join", "convolution", "gradient"),
    *("merge", "statistics", "concatenate", "cut", "transpose", "stack"),
)


@dataclass
class TensorSpec:
    shape: tuple
    item_bytes: int = 4
    replicable: bool = False
    label: int = 0


@dataclass
class RandomRead:
    tensor: int
    rows: list
    addend_axes: list = field(default_factory=list)
    fill: float = 0.0
    is_read: bool = True
    is_held: bool = False  # written in place
    absent: tuple | None = None  # (dimension, row) of one that the tensor lacks


@dataclass
class Written:
    tensor: int
    rows: list
    combine: list
    absent: tuple | None = None


@dataclass
class OperatorSpec:
    extents: list
    reads: list
    written: list
    phase: int = 0
    group: int = 0
    label: int = 0
    follows: int = -1
    same_as: int = -1
    fetched: list = field(default_factory=list)
    nestings: list = field(default_factory=list)  # (inner, outer) axes


@dataclass
class GraphSpec:
    tensors: list = field(default_factory=list)
    operators: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    shares_regions: bool = False
    stages_small_sums: bool = False
    relays: bool = False
    repeats: bool = False  # every worker may compute all of any operator

    def tensor(self, shape, replicable=False, label=0, item_bytes=4):
        self.tensors.append(TensorSpec(tuple(shape), item_bytes, replicable, label))
        return len(self.tensors) - 1

    def operator(self, extents, reads, written, **rest):
        rest.setdefault("group", len(self.operators))
        self.operators.append(OperatorSpec(list(extents), reads, written, **rest))
        return len(self.operators) - 1

    def native(self):
        graph = _core.Graph()
        if self.shares_regions:
            graph.share_regions()
        if self.stages_small_sums:
            graph.stage_small_sums()
        if self.relays:
            graph.relay_in_groups()
        for t in self.tensors:
            graph.add_tensor(list(t.shape), t.item_bytes, t.replicable, t.label)
        for o in self.operators:
            graph.add_operator(
                o.extents,
                [(r.tensor, r.rows, r.addend_axes, r.fill, r.is_held, r.is_read) for r in o.reads],
                [(w.tensor, w.rows, w.combine) for w in o.written],
                o.phase,
                o.group,
                o.label,
                o.follows,
                o.same_as,
                o.fetched,
                absent=[(slot, *t.absent) for slot, t in enumerate((*o.reads, *o.written)) if t.absent is not None],
                nestings=o.nestings,
            )
        for operator in range(len(self.operators)) if self.repeats else ():
            graph.repeat(operator)
        for tensor in self.outputs:
            graph.mark_output(tensor)
        return graph


def row(*terms, lower=0, upper=1):
    """Return a row. An axis without a coefficient gets 1."""
    return ([(t, 1) if isinstance(t, int) else t for t in terms], lower, upper)


def matmul(spec, x, w, bias=None, replicable=False, **rest):
    """Add y[b, o] = sum over i of x[b, i] * w[o, i] + bias[o]; axes b, o, i."""
    (batch, inner), outer = spec.tensors[x].shape, spec.tensors[w].shape[0]
    y = spec.tensor((batch, outer), replicable)
    reads = [RandomRead(x, [row(0), row(2)]), RandomRead(w, [row(1), row(2)])]
    if bias is not None:
        reads.append(RandomRead(bias, [row(1)], [2]))
    spec.operator([batch, outer, inner], reads, [Written(y, [row(0), row(1)], [CONCAT, CONCAT, REDUCE])], **rest)
    return y


def elementwise(spec, inputs, **rest):
    shape = spec.tensors[inputs[0]].shape
    y = spec.tensor(shape)
    rows = [row(d) for d in range(len(shape))]
    spec.operator(
        shape,
        [RandomRead(t, rows) for t in inputs],
        [Written(y, rows, [CONCAT] * len(shape))],
        label=ELEMENTWISE_LABEL,
        **rest,
    )
    return y


def convolution(spec, x, kernel, stride, pad, filters, **rest):
    """Add y[b, o, s] = sum over c, k of x[b, c, s * stride + k - pad] * w[o, c, k]; axes b, o, c, s."""
    batch, channels, length = spec.tensors[x].shape
    out = (length + 2 * pad - kernel) // stride + 1
    w, y = spec.tensor((filters, channels, kernel)), spec.tensor((batch, filters, out))
    halo = row((3, stride), lower=-pad, upper=kernel - pad)
    reads = [RandomRead(x, [row(0), row(2), halo], fill=-7.0), RandomRead(w, [row(1), row(2), row()])]
    spec.operator(
        [batch, filters, channels, out],
        reads,
        [Written(y, [row(0), row(1), row(3)], [CONCAT, CONCAT, REDUCE, CONCAT])],
        **rest,
    )
    return y


def data_gradient(spec, dy, kernel, stride, pad, length, **rest):
    """Add dx[b, s * stride + k - pad] += dy[b, s] * w[k]; axes b, s. Parts along s overlap."""
    batch, out = spec.tensors[dy].shape[0], spec.tensors[dy].shape[-1]
    dx = spec.tensor((batch, length))
    reads = [RandomRead(dy, [row(0), *[row()] * (len(spec.tensors[dy].shape) - 2), row(1)])]
    halo = row((1, stride), lower=-pad, upper=kernel - pad)
    spec.operator([batch, out], reads, [Written(dx, [row(0), halo], [CONCAT, OVERLAP_ADD])], **rest)
    return dx


def merge_dimensions(spec, x, **rest):
    """Add y[g * C + c] = x[g, c], and a reversed copy of g as a second output; c is split after g."""
    groups, size = spec.tensors[x].shape
    y, z = spec.tensor((groups * size,)), spec.tensor((groups,), replicable=True)
    merged, mirrored = row((0, size), 1), row((0, -1), lower=groups - 1, upper=groups)
    spec.operator(
        [groups, size],
        [RandomRead(x, [row(0), row(1)])],
        [Written(y, [merged], [CONCAT, CONCAT]), Written(z, [mirrored], [CONCAT, REDUCE])],
        nestings=[(1, 0)],
        **rest,
    )
    return y, z


def statistics(spec, x, replicable, **rest):
    """Add mean[c] over all but axis 1, a total, and a copy y. Axis 0 reduces the sums and concatenates the copy."""
    shape = spec.tensors[x].shape
    mean, y, total = spec.tensor((shape[1],), replicable), spec.tensor(shape), spec.tensor((), replicable)
    spec.outputs.append(total)
    rows = [row(d) for d in range(len(shape))]
    spec.operator(
        shape,
        [RandomRead(x, rows)],
        [
            Written(mean, [row(1)], [REDUCE, CONCAT] + [REDUCE] * (len(shape) - 2)),
            Written(y, rows, [CONCAT] * len(shape)),
            Written(total, [], [REDUCE] * len(shape)),
        ],
        **rest,
    )
    return mean, y


def concatenate(spec, a, b, **rest):
    """Add y[i, c], the columns of a, then of b; axes i, c. No kernel computes it in parts."""
    (n, ca), cb = spec.tensors[a].shape, spec.tensors[b].shape[1]
    y = spec.tensor((n, ca + cb))
    reads = [RandomRead(a, [row(0), row(1)]), RandomRead(b, [row(0), row(1, lower=-ca, upper=1 - ca)])]
    written = [Written(y, [row(0), row(1)], [CONCAT, CONCAT])]
    spec.operator([n, ca + cb], reads, written, fetched=[1], **rest)
    return y


def cut_columns(spec, x, at, **rest):
    """Add the columns of x before `at`, and the others; axes i, c."""
    n, c = spec.tensors[x].shape
    parts = [(spec.tensor((n, end - begin)), begin) for begin, end in ((0, at), (at, c))]
    written = [Written(y, [row(0), row(1, lower=-b, upper=1 - b)], [CONCAT, CONCAT]) for y, b in parts]
    spec.operator([n, c], [RandomRead(x, [row(0), row(1)])], written, fetched=[1], **rest)
    return [y for y, _ in parts]


def stack(spec, parts, at, **rest):
    """Add y with the tensors along a new dimension `at`; axes are its dimensions."""
    shape = list(spec.tensors[parts[0]].shape)
    shape.insert(at, len(parts))
    rows = [row(d) for d in range(len(shape))]
    own = [*rows[:at], *rows[at + 1 :]]
    reads = [RandomRead(x, own, absent=(at, row(at, lower=-n, upper=1 - n))) for n, x in enumerate(parts)]
    y = spec.tensor(shape)
    spec.operator(shape, reads, [Written(y, rows, [CONCAT] * len(shape))], fetched=[at], **rest)
    return y


def unstack(spec, x, at, **rest):
    """Add the slices of x along a dimension, without it; axes are the dimensions of x."""
    shape = spec.tensors[x].shape
    rows = [row(d) for d in range(len(shape))]
    parts = [spec.tensor((*shape[:at], *shape[at + 1 :])) for _ in range(shape[at])]
    written = [
        Written(y, [*rows[:at], *rows[at + 1 :]], [CONCAT] * len(shape), (at, row(at, lower=-n, upper=1 - n)))
        for n, y in enumerate(parts)
    ]
    spec.operator(shape, [RandomRead(x, rows)], written, fetched=[at], **rest)
    return parts


def update(spec, weight, gradient):
    shape = spec.tensors[weight].shape
    spec.operator(shape, [RandomRead(gradient, [row(d) for d in range(len(shape))])], [], phase=2, follows=weight)


def transpose_read(spec, x, **rest):
    """Add y[j, i] = x[i, j]; axes i, j."""
    n, c = spec.tensors[x].shape
    y = spec.tensor((c, n))
    spec.operator([n, c], [RandomRead(x, [row(0), row(1)])], [Written(y, [row(1), row(0)], [CONCAT, CONCAT])], **rest)
    return y


def random_graph(seed, largest=6, operators=(2, 4)):
    """Return two to four operators over shared tensors, sometimes with a backward phase and updates."""
    rng = random.Random(seed)
    spec = GraphSpec()

    def extent():
        return rng.randint(2, largest)

    matrices = [spec.tensor((extent(), extent()), label=1)]
    for _ in range(rng.randint(*operators)):
        x = rng.choice(matrices)
        n, c = spec.tensors[x].shape
        phase = rng.choice([0, 0, 1])
        kind = rng.choice(KINDS)
        if kind == "matmul":
            outer = extent()
            w = spec.tensor((outer, c), label=2)
            bias = spec.tensor((outer,), replicable=rng.random() < 0.5) if rng.random() < 0.5 else None
            matrices.append(matmul(spec, x, w, bias, rng.random() < 0.3, phase=phase))
            if rng.random() < 0.5:
                update(spec, w, transpose_read(spec, spec.tensor((c, outer)), phase=1))
        elif kind == "elementwise":
            matrices.append(elementwise(spec, [x], phase=phase))
        elif kind == "join":
            same = [t for t in matrices if spec.tensors[t].shape == (n, c)]
            matrices.append(elementwise(spec, [rng.choice(same), x], phase=phase))
            spec.operators[-1].reads[0].is_read = rng.random() < 0.8
        elif kind == "convolution":
            cube = spec.tensor((rng.randint(2, 3), rng.randint(2, 3), rng.randint(4, 8)))
            kernel = rng.choice([1, 2, 3])
            y = convolution(
                spec, cube, kernel, rng.choice([1, 2]), rng.randint(0, kernel - 1), rng.randint(2, 3), phase=phase
            )
            if rng.random() < 0.5:
                matrices.append(data_gradient(spec, y, 3, 1, 1, spec.tensors[y].shape[-1], phase=phase))
            else:
                spec.outputs.append(y)
        elif kind == "gradient":
            matrices.append(data_gradient(spec, x, 3, 2, 1, 2 * c, phase=phase))
        elif kind == "merge":
            spec.outputs.extend(merge_dimensions(spec, x, phase=phase))
        elif kind == "statistics":
            mean, y = statistics(spec, x, rng.random() < 0.5, phase=phase)
            spec.outputs.append(mean)
            matrices.append(y)
        elif kind == "concatenate":
            fitting = [t for t in matrices if spec.tensors[t].shape[0] == n]
            matrices.append(concatenate(spec, x, rng.choice(fitting), phase=phase))
        elif kind == "cut":
            parts = cut_columns(spec, x, rng.randint(1, c - 1), phase=phase)
            spec.outputs.append(parts.pop(rng.randrange(2)))
            if rng.random() < 0.5:
                spec.outputs += parts
        elif kind == "stack":
            same = [t for t in matrices if spec.tensors[t].shape == (n, c)]
            y = stack(spec, [x, *rng.choices(same, k=rng.randint(1, 3))], rng.randint(0, 2), phase=phase)
            parts = unstack(spec, y, rng.randint(0, 2), phase=phase)
            spec.outputs.append(parts.pop(rng.randrange(len(parts))))
            matrices += parts
        else:
            matrices.append(transpose_read(spec, x, phase=phase))
    spec.outputs.append(matrices[-1])
    share_groups(rng, spec)
    return spec


def entangled_graph(seed, size, extents):
    """Return `size` operators, mostly products of earlier results. No plan suits all, and elimination is hard."""
    rng = random.Random(seed)
    spec = GraphSpec()
    matrices = [spec.tensor((rng.choice(extents), rng.choice(extents))) for _ in range(3)]
    while len(spec.operators) < size:
        x = rng.choice(matrices)
        n, c = spec.tensors[x].shape
        kind = rng.choice(("matmul", "matmul", "matmul", "transpose", "join"))
        if kind == "matmul":
            fitting = [t for t in matrices if t != x and spec.tensors[t].shape[1] == c]
            w = rng.choice(fitting) if fitting else spec.tensor((rng.choice(extents), c))
            matrices.append(matmul(spec, x, w))
        elif kind == "transpose":
            matrices.append(transpose_read(spec, x))
        else:
            same = [t for t in matrices if spec.tensors[t].shape == (n, c)]
            matrices.append(elementwise(spec, [x, rng.choice(same)]))
    read = {read.tensor for operator in spec.operators for read in operator.reads}
    spec.outputs += [t for t in matrices if t not in read]
    return spec


def share_groups(rng, spec):
    for later, operator in enumerate(spec.operators):
        for earlier in spec.operators[:later]:
            if (
                earlier.extents == operator.extents
                and operator.follows < 0
                and earlier.follows < 0
                and rng.random() < 0.5
            ):
                root = spec.operators.index(earlier)
                operator.same_as, operator.group = root, earlier.group
                break
