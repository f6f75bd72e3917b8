"""Find all ways to split an operator by running the framework's kernel. The description is not used.

A *cut* divides each input along a dimension, or passes the whole input. All combinations are tried, with attributes
unchanged or reduced to the size of a part. A cut is kept if each whole output is the concatenation, sum or maximum of
the parts' outputs, or equal to each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any, Literal, TypeAlias

import numpy as np

from tofu.analysis import Combine
from tofu.verification.kernel import Array, Kernel, Shape
from tofu.verification.report import find_precision
from tofu.verification.split import Range, relative_error, split_range

Role: TypeAlias = tuple[Literal["input", "output"], int]
"""An input or output of the forward operator, such as ("input", 0). Its gradient has the same role."""
RunPart: TypeAlias = "Callable[[int, int], Sequence[Array] | None]"
"""Function that takes the numbers of a split and a part, and returns the part's outputs; None if the kernel refuses it."""
Dimensions = tuple[int | None, ...]
Split = tuple[Range, ...]


@dataclass(frozen=True)
class Cut:
    """A way to split an operator: the split dimension of each tensor, and the way to combine outputs."""

    inputs: Dimensions
    outputs: Dimensions
    combine: tuple[Combine, ...]

    def __repr__(self) -> str:
        read = ", ".join("whole" if d is None else f"dimension {d}" for d in self.inputs)
        written = ", ".join(
            f"{combine.word} along {d}" if combine is Combine.CONCAT else combine.word
            for d, combine in zip(self.outputs, self.combine, strict=True)
        )
        return f"inputs ({read}) -> {written}"


@dataclass(frozen=True)
class Geometry:
    """A way to cut the inputs of a forward operator. It may be invalid: then the parts compute wrong results.

    Attributes
    ----------
    inputs, outputs
        The split dimension of each tensor, or None.
    base, splits
        Ways to divide the length `base`, such as 4 = 1 + 3. Other lengths are divided in proportion, such as 8 = 2 + 6.
    shrunk
        Attribute values, such as a number of filters, that are divided like dimensions.
    pieces
        `pieces[split][part]` are the shapes of the part's outputs.
    """

    inputs: Dimensions
    shrunk: frozenset[int]
    base: int
    splits: tuple[Split, ...]
    outputs: Dimensions = ()
    pieces: tuple[tuple[tuple[Shape, ...], ...], ...] = ()

    def cut_input(self, number: int, array: Array, split: int, part: int) -> Array:
        """Return part `part` of `array`, which has the shape of input `number`."""
        d = self.inputs[number]
        return array if d is None else array.take(self._range(array.shape[d], split, part), axis=d)

    def cut_output(self, number: int, array: Array, split: int, part: int) -> Array:
        """Return part `part` of `array`, which has the shape of output `number`."""
        d = self.outputs[number]
        if d is None:
            return array
        extents = [shapes[number][d] for shapes in self.pieces[split][: part + 1]]
        return array.take(range(sum(extents[:-1]), sum(extents)), axis=d)

    def combine_gradients(self, gradients: Sequence[Array], number: int, whole: Array, split: int) -> Array:
        """Return the gradient of input `number`: the concatenated `gradients` of its parts."""
        d = self.inputs[number]
        assert d is not None
        return np.concatenate(gradients, axis=d)

    def cut(self, array: Array, role: Role, split: int, part: int) -> Array:
        """Return part `part` of `array`, which has the shape of the tensor `role`, such as ("input", 0)."""
        kind, number = role
        return (self.cut_input if kind == "input" else self.cut_output)(number, array, split, part)

    def shrink(self, values: Mapping[str, Any], split: int, part: int) -> dict[str, Any]:
        """Return the attributes for one part, such as num_filter=4 instead of 8."""
        return {name: self._shrink(value, split, part) for name, value in values.items()}

    def _shrink(self, value: Any, split: int, part: int) -> Any:
        if type(value) is tuple:
            return tuple(self._shrink(item, split, part) for item in value)
        return len(self._range(value, split, part)) if type(value) is int and value in self.shrunk else value

    def _range(self, extent: int, split: int, part: int) -> range:
        begin, end = self.splits[split][part]
        return range(begin * extent // self.base, end * extent // self.base)


def list_geometries(forward: Kernel, indexed: Collection[int], shrinks: bool = True) -> Iterator[Geometry]:
    """Yield ways to cut a forward operator's inputs. Ways that the framework refuses are left out.

    Dimensions whose length is in `indexed` are not cut.
    """
    shapes = [array.shape for array in forward.inputs]
    attribute_entries = chain.from_iterable(
        value if isinstance(value, tuple) else (value,) for value in forward.values.values()
    )
    numbers = sorted({item for item in attribute_entries if shrinks and type(item) is int and item > 1} - set(indexed))
    dimensions_by_input = [(None, *(d for d, e in enumerate(shape) if e > 1 and e not in indexed)) for shape in shapes]
    for inputs, shrunk in product(product(*dimensions_by_input), _subsets(numbers)):
        divided_extents = {*shrunk, *(shape[d] for shape, d in zip(shapes, inputs, strict=True) if d is not None)}
        base = min(divided_extents, default=1)
        if (
            base > 1
            and all(extent % base == 0 for extent in divided_extents)
            and _cuts_equal_shapes_alike(shapes, inputs)
        ):
            geometry = _infer_shapes_of_parts(forward, Geometry(inputs, shrunk, base, list_splits(base)))
            if geometry is not None:
                yield geometry


# Some kernels read out of bounds if inputs of equal shapes are cut in different ways.
def _cuts_equal_shapes_alike(shapes: Sequence[Shape], inputs: Dimensions) -> bool:
    return len(set(zip(shapes, inputs, strict=True))) == len(set(shapes))


def list_splits(extent: int) -> tuple[Split, ...]:
    """Return several ways to divide a length into two or three parts."""
    halves = {extent // 2, (extent + 1) // 2} if extent % 2 or extent == 2 else {extent // 2 - 1, extent // 2 + 1}
    return (
        *(((0, half), (half, extent)) for half in sorted(halves)),
        *([tuple(split_range(extent, 3))] if extent > 2 else []),
    )


def _subsets(numbers: Sequence[int]) -> Iterable[frozenset[int]]:
    sizes = range(len(numbers) + 1)
    return map(frozenset, chain.from_iterable(combinations(numbers, size) for size in sizes))


def _infer_shapes_of_parts(forward: Kernel, geometry: Geometry) -> Geometry | None:
    pieces = []
    for split, ranges in enumerate(geometry.splits):
        shapes = [infer_part(forward, geometry, split, part) for part in range(len(ranges))]
        pieces.append(tuple(shape for shape in shapes if shape is not None))
        if len(pieces[-1]) < len(ranges):
            return None
    output_dimensions_of_splits = {
        tuple(
            _find_concatenated_dimension(whole.shape, part_shapes)
            for whole, part_shapes in zip(forward.outputs, zip(*shapes, strict=True), strict=True)
        )
        for shapes in pieces
    }
    outputs = output_dimensions_of_splits.pop()
    if output_dimensions_of_splits or -1 in outputs:
        return None
    return replace(geometry, outputs=outputs, pieces=tuple(pieces))


def infer_part(forward: Kernel, geometry: Geometry, split: int, part: int) -> tuple[Shape, ...] | None:
    """Return the shapes of a part's outputs, or None if the framework refuses the part."""
    shapes = [geometry.cut_input(n, array, split, part).shape for n, array in enumerate(forward.inputs)]
    inferred = forward.infer(geometry.shrink(forward.values, split, part), shapes)
    return inferred if inferred is None or len(inferred) == len(forward.outputs) else None


def _find_concatenated_dimension(whole: Shape, pieces: Sequence[Shape]) -> int | None:
    if all(piece == whole for piece in pieces):
        return None
    for d, extent in enumerate(whole):
        resized = {(*piece[:d], extent, *piece[d + 1 :]) for piece in pieces if len(piece) == len(whole)}
        if (
            resized == {whole}
            and len({len(piece) for piece in pieces}) == 1
            and sum(piece[d] for piece in pieces) == extent
        ):
            return d
    return -1


def find_cut(
    geometry: Geometry,
    whole_outputs: Sequence[Array],
    roles: tuple[Sequence[Role], Sequence[Role]],
    is_needed: Sequence[bool],
    run_part: RunPart,
) -> Cut | None:
    """Run an operator in parts. Return a `Cut` if the parts' outputs combine into `whole_outputs`, otherwise None.

    Only outputs with True in `is_needed` are compared.
    """
    input_roles, output_roles = roles
    dimensions = {"input": geometry.inputs, "output": geometry.outputs}
    output_dimensions = [dimensions[kind][number] for kind, number in output_roles]
    combines_of_splits = set()
    for split, ranges in enumerate(geometry.splits):
        outputs_of_parts = []
        for part in range(len(ranges)):
            part_outputs = run_part(split, part)
            if part_outputs is None:
                return None
            outputs_of_parts.append(part_outputs)
        pieces_of_outputs = zip(*outputs_of_parts, strict=True)
        combines_of_splits.add(
            tuple(
                _find_combine(geometry, split, whole, pieces, role, dimension) if needed else Combine.REPLICATE
                for whole, pieces, role, dimension, needed in zip(
                    whole_outputs, pieces_of_outputs, output_roles, output_dimensions, is_needed, strict=True
                )
            )
        )
    combine = tuple(output_combine for output_combine in combines_of_splits.pop() if output_combine is not None)
    if combines_of_splits or len(combine) < len(output_roles) or set(combine) <= {Combine.REPLICATE}:
        return None
    return Cut(
        tuple(dimensions[kind][number] for kind, number in input_roles),
        tuple(d if way is Combine.CONCAT else None for d, way in zip(output_dimensions, combine, strict=True)),
        combine,
    )


def _find_combine(
    geometry: Geometry, split: int, whole: Array, pieces: Sequence[Array], role: Role, dimension: int | None
) -> Combine | None:
    tolerance = find_precision([whole.dtype.name])

    def is_whole(value: Array) -> bool:
        return relative_error(value, whole) <= tolerance

    if dimension is not None:
        kind, number = role
        is_output = kind == "output"
        combined = (
            np.concatenate(pieces, dimension) if is_output else geometry.combine_gradients(pieces, number, whole, split)
        )
        return Combine.CONCAT if is_whole(combined) else None
    if all(map(is_whole, pieces)):
        return Combine.REPLICATE
    return Combine.REDUCE if is_whole(np.sum(pieces, axis=0)) or is_whole(np.max(pieces, axis=0)) else None
