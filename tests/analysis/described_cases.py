"""Descriptions with attributes and shapes, for tests that hold for every description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tofu.analysis import OperatorAccess
from tofu.tdl import Any, Description, Sum, describe, interpret, merge, output, position, scatter, unread
from tofu.verification.split import (
    combine_outputs,
    count_parts,
    cut_input,
    find_region,
    list_parts,
    move_elements,
    region_shape,
    split_range,
)


@dataclass(frozen=True)
class DescribedCase:
    name: str
    description: Description
    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    axes: tuple[str, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    integers: Mapping[int, int] = field(default_factory=dict)  # inputs that hold indices below a bound

    def random_inputs(self) -> list[np.ndarray]:
        random = np.random.default_rng(7)
        return [
            random.integers(0, self.integers[n], shape).astype(float)
            if n in self.integers
            else random.normal(size=shape)
            for n, shape in enumerate(self.inputs)
        ]

    def run_split(self, access: OperatorAccess, axis: int, count: int) -> list[np.ndarray]:
        """Split the operator along an axis into parts that the interpreter computes. Return the combined outputs."""
        inputs, extents = self.random_inputs(), access.extents
        splits = {a: split_range(extents[a], parts) for a, parts in count_parts(access, [axis], count).items()}
        pieces = []
        for part in list_parts(splits):
            if access.axes[axis] in access.fetched_axes:  # no kernel runs
                pieces.append(move_elements(inputs, access, part, self.outputs))
                continue
            local = [cut_input(array, read, part, extents) for array, read in zip(inputs, access.inputs, strict=True)]
            shapes = [
                region_shape(find_region(written.rows, shape, part, extents))
                for written, shape in zip(access.outputs, self.outputs, strict=True)
            ]
            ranges = {access.axes[a]: each for a, each in part.items()}
            changed = access.worker_attributes(ranges, [array.shape for array in local], shapes)
            pieces.append(interpret(self.description, {**self.attributes, **changed}, local, shapes))
        outputs = zip(zip(*pieces, strict=True), access.outputs, self.outputs, strict=True)
        return [combine_outputs(own, written, splits, access, shape) for own, written, shape in outputs]

    def __str__(self) -> str:
        return self.name


def cut(data, first):
    return (
        scatter(lambda i, j: ((i, j), data[i, j] + unread(first[i, j])), {"j": data.shape[1]}),
        scatter(lambda i, j: ((i, j - first.shape[1]), data[i, j])),
    )


def frame(data):
    return lambda i, j: data[i - 2, j - 1]


def convolution(data, weight, bias=None, *, kernel, stride=(1, 1), pad=(0, 0), num_filter, num_group=1):
    def value(b, g, co, y, x):
        def product(ci, ky, kx):
            cell = data[b, merge(g, ci), y * stride[0] + ky - pad[0], x * stride[1] + kx - pad[1]]
            return cell * weight[merge(g, co), ci, ky, kx]

        total = Sum(product, extents={"ky": kernel[0], "kx": kernel[1]})
        return total if bias is None else total + bias[merge(g, co)]

    return output("b (g co) y x", value, extents={"g": num_group})


CONVOLUTION = describe(
    convolution,
    ("Convolution",),
    bound={
        "num_filter": lambda local: local.extent("g") * local.extent("co"),
        "num_group": "g",
        "pad": lambda local: tuple(
            0 if local.is_split(a) else p for a, p in zip("yx", local.attributes["pad"], strict=True)
        ),
    },
    pads=frozenset("yx"),
)


def mean(x, *, corrected=1.0):
    return lambda i: corrected * Sum(lambda k: x[i, k]) / x.shape[1]


def embedding(index, table, *, output_dim):
    return lambda n, e: table[Any(index[n]), e]


EMBEDDING = describe(embedding, bound={"output_dim": "e"})


def reverse_blocks(x):
    return output("(b i) j", lambda b, i, j: x[Any(2 - position(i), first=3 * b, extent=3), j], {"i": 3})


def add_broadcast(a, b):
    return lambda *i: a.broadcast(*i) + b.broadcast(*i)


CASES = [
    DescribedCase("cut", describe(cut), [(4, 9), (4, 3)], [(4, 3), (4, 6)], ("i", "j")),
    DescribedCase("frame", describe(frame, fill={"data": 3.0}), [(4, 5)], [(8, 7)], ("i", "j")),
    DescribedCase(
        "convolution",
        CONVOLUTION,
        [(4, 6, 7, 8), (5, 6, 3, 3), (5,)],
        [(4, 5, 4, 8)],
        ("b", "co", "y", "x", "ci"),
        {"kernel": (3, 3), "stride": (2, 1), "pad": (1, 1), "num_filter": 5},
    ),
    DescribedCase(
        "grouped_convolution",
        CONVOLUTION,
        [(4, 6, 5, 5), (6, 2, 3, 3)],
        [(4, 6, 3, 3)],
        ("b", "g", "co", "y", "x", "ci"),
        {"kernel": (3, 3), "num_filter": 6, "num_group": 3},
    ),
    DescribedCase(
        "corrected_mean",
        describe(
            mean, corrects=frozenset("k"), bound={"corrected": lambda local: local.extent("k") / local.whole("k")}
        ),
        [(4, 6)],
        [(4,)],
        ("i", "k"),
    ),
    DescribedCase("embedding", EMBEDDING, [(7,), (10, 6)], [(7, 6)], ("n", "e"), {"output_dim": 6}, {0: 10}),
    DescribedCase("reverse_blocks", describe(reverse_blocks), [(12, 2)], [(12, 2)], ("b", "j")),
    DescribedCase("broadcast", describe(add_broadcast), [(4, 6), (4, 1)], [(4, 6)], ("i0", "i1")),
]
