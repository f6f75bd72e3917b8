"""Split Pallas kernels along axes of their grids.

A `pallas_call` runs its body once for each position of a grid. An *index map* chooses a block of each array for this
position. A grid axis can be split if

- each result has a dimension along which its blocks follow the axis, so that no block is written twice;
- each operand has such a dimension, or its blocks do not depend on the axis;
- the body reads neither its position along the axis nor the size of the axis.

Each worker runs the same body over a smaller grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from tofu.errors import DescriptionError
from tofu.jax.frontend.control_flow import walk_equations
from tofu.jax.frontend.equations import Equation
from tofu.jax.kernels.call import KernelCall
from tofu.jax.kernels.rule import Dimension, Shape, SplitRule
from tofu.jax.kernels.versions import BlockSpecification, find_kernel_name, read_blocks, resize_grid

MOST_POSITIONS = 1 << 20
"""Index maps are evaluated at no more than this many positions of the grid."""


@dataclass(frozen=True)
class _FollowedDimension:
    """Movement of an array's blocks along a grid axis.

    After `positions` steps along the axis, the blocks move on by `elements` elements of `dimension`. If `elements` is
    0, they never move.
    """

    positions: int
    dimension: int = 0
    elements: int = 0

    def widen(self, positions: int) -> _FollowedDimension:
        return replace(self, positions=positions, elements=self.elements * positions // self.positions)


class _UnsplitAxisError(Exception): ...


def read_pallas_call(equation: Equation, shapes: Sequence[Shape]) -> KernelCall:
    """Return a `pallas_call` as a kernel with a split rule. `shapes` has the shape of each operand."""
    return _PallasCall(equation).make_kernel(shapes, equation.line)


class _PallasCall:
    """A `pallas_call` with its grid and its blocks.

    The first `num_leading` operands have no blocks: they are sizes of the grid, and scalars for index maps.
    """

    def __init__(self, equation: Equation) -> None:
        self.parameters, self.primitive = equation.params, equation.primitive
        self.mapping = equation.params["grid_mapping"]
        self.grid = tuple(self.mapping.grid)
        self.blocks = read_blocks(self.mapping)
        self.num_inputs = len(self.blocks) - self.mapping.num_outputs
        self.num_leading = sum(not isinstance(size, int) for size in self.grid) + self.mapping.num_index_operands
        body_axes = [n for n in range(len(self.grid)) if n not in self.mapping.vmapped_dims]
        self.axes_read_by_body = frozenset(
            body_axes[inner.params["axis"]]
            for inner in walk_equations(self.parameters["jaxpr"])
            if inner.primitive.name in ("program_id", "num_programs")
        )

    def make_kernel(self, shapes: Sequence[Shape], line: object) -> KernelCall:
        dimensions: list[list[Dimension]] = [[()] * len(block.shape) for block in self.blocks]
        group_sizes: dict[int, int] = {}
        reasons = []
        for axis, size in enumerate(self.grid):
            try:
                followed_dimensions = self._read_axis(axis)
            except _UnsplitAxisError as error:
                reasons.append(f"axis {axis} of the grid ({size}): {error}")
                continue
            group_sizes[axis] = followed_dimensions[0].positions
            for array_dimensions, followed in zip(dimensions, followed_dimensions, strict=True):
                if followed.elements:
                    array_dimensions[followed.dimension] = (f"grid{axis}", followed.elements)
        leading = tuple(((),) * len(shape) for shape in shapes[: self.num_leading])
        arrays = tuple(map(tuple, dimensions))
        rule = SplitRule((*leading, *arrays[: self.num_inputs]), arrays[self.num_inputs :])
        refused = "" if group_sizes else self._explain(reasons, line)
        return KernelCall("pallas_call", self._make_run(rule, group_sizes), rule, refused=refused)

    def _read_axis(self, axis: int) -> list[_FollowedDimension]:
        size = self.grid[axis]
        if not isinstance(size, int):
            raise _UnsplitAxisError("its size is known at run time only")
        if size == 1:
            raise _UnsplitAxisError("it has one position")
        if axis in self.axes_read_by_body:
            raise _UnsplitAxisError("the body reads its position or its size (program_id, num_programs)")
        if self.mapping.num_scratch_operands and any(outer_axis < axis for outer_axis in self.axes_read_by_body):
            raise _UnsplitAxisError("scratch may carry numbers from one position to the next")
        unequal = [self._find_followed_dimension(block, axis) for block in self.blocks]
        followed_dimensions = [followed.widen(lcm(*(each.positions for each in unequal))) for followed in unequal]
        if size // followed_dimensions[0].positions < 2:
            raise _UnsplitAxisError(f"its arrays follow every {followed_dimensions[0].positions} of its positions")
        for n, followed in enumerate(followed_dimensions[self.num_inputs :]):
            if not followed.elements:
                raise _UnsplitAxisError(f"no dimension of result {n} follows it")
        if not any(followed.elements for followed in followed_dimensions[: self.num_inputs]):
            raise _UnsplitAxisError("no dimension of an operand follows it")
        for operand, result in self.parameters["input_output_aliases"]:
            if followed_dimensions[operand - self.num_leading] != followed_dimensions[self.num_inputs + result]:
                raise _UnsplitAxisError(
                    f"result {result} is written into operand {operand}, which does not follow it alike"
                )
        return followed_dimensions

    def _find_followed_dimension(self, block: BlockSpecification, axis: int) -> _FollowedDimension:
        all_followed = [self._follow(block, d, axis) for d in range(len(block.shape))]
        positions = lcm(*(followed.positions for followed in all_followed))
        moving = [followed.widen(positions) for followed in all_followed if followed.elements]
        if len(moving) > 1:
            raise _UnsplitAxisError(f"two dimensions of an array of shape {block.shape} follow it")
        for followed in moving:
            d = followed.dimension
            if self.grid[axis] * followed.elements != block.shape[d] * positions:
                raise _UnsplitAxisError(f"its blocks do not make up dimension {d} of an array of shape {block.shape}")
            return followed
        return _FollowedDimension(positions)

    def _follow(self, block: BlockSpecification, dimension: int, axis: int) -> _FollowedDimension:
        dimension_map, read_axes = _extract_dimension_map(block.index_map, dimension)
        if axis not in read_axes:
            return _FollowedDimension(1)
        blocks_text = f"the blocks of dimension {dimension} of an array of shape {block.shape}"
        if any(n >= len(self.grid) for n in read_axes):
            raise _UnsplitAxisError(f"{blocks_text} are chosen by numbers that are known at run time only")
        sizes = [self.grid[n] for n in read_axes]
        if not all(isinstance(size, int) for size in sizes) or prod(sizes) > MOST_POSITIONS:
            raise _UnsplitAxisError(f"{blocks_text} follow too many positions of the grid")
        positions = np.moveaxis(_evaluate(dimension_map, sizes), read_axes.index(axis), 0).reshape(self.grid[axis], -1)
        if (positions == positions[:1]).all():
            return _FollowedDimension(1)
        stride = _match_stride(positions)
        if stride is None or not block.sizes[dimension]:
            raise _UnsplitAxisError(f"{blocks_text} do not follow it one after the other")
        group_size, blocks = stride
        return _FollowedDimension(group_size, dimension, blocks * block.sizes[dimension])

    def _make_run(self, rule: SplitRule, group_sizes: Mapping[int, int]) -> Callable[..., Sequence[Any]]:
        def run(*operands: Any) -> Sequence[Any]:
            extents = rule.find_extents([tuple(x.shape) for x in operands])
            shapes = [tuple(x.shape) for x in operands[self.num_leading :]]
            inputs = zip(shapes, self.blocks[: self.num_inputs], rule.inputs[self.num_leading :], strict=True)
            for shape, block, dimensions in inputs:
                if any(not d and a != b for d, a, b in zip(dimensions, shape, block.shape, strict=True)):
                    raise DescriptionError(
                        f"an operand has the shape {shape}; `{rule}` keeps the whole dimensions of {block.shape}"
                    )
            shapes += [
                tuple(extents[d[0]] * d[1] if d else size for d, size in zip(dimensions, block.shape, strict=True))
                for dimensions, block in zip(rule.outputs, self.blocks[self.num_inputs :], strict=True)
            ]
            sizes = {axis: extents[f"grid{axis}"] * positions for axis, positions in group_sizes.items()}
            grid = [sizes.get(axis, size) for axis, size in enumerate(self.grid)]
            return list(self.primitive.bind(*operands, **resize_grid(self.parameters, grid, shapes)))

        return run

    def _explain(self, reasons: Sequence[str], line: object) -> str:
        name = find_kernel_name(self.parameters)
        why = "; ".join(reasons) or "it has no grid"
        return (
            f"the Pallas kernel {name} at {line} cannot be split. {why[:1].upper()}{why[1:]}. Describe the function that calls it, as in "
            '@tofu.jax.describe("b _, b _ -> b _") (docs/add-operator.md)'
        )


def _extract_dimension_map(index_map: ClosedJaxpr, dimension: int) -> tuple[ClosedJaxpr, list[int]]:
    jaxpr = index_map.jaxpr
    result = jaxpr.outvars[dimension]
    needed = set() if isinstance(result, Literal) else {result}
    equations = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            needed.update(x for x in equation.invars if not isinstance(x, Literal))
            equations.append(equation)
    read_axes = [n for n, variable in enumerate(jaxpr.invars) if variable in needed]
    dimension_map = jaxpr.replace(invars=[jaxpr.invars[n] for n in read_axes], outvars=[result], eqns=equations[::-1])
    return ClosedJaxpr(dimension_map, index_map.consts), read_axes


def _evaluate(index_map: ClosedJaxpr, sizes: Sequence[int]) -> np.ndarray[Any, Any]:
    positions = np.indices(sizes, np.int32).reshape(len(sizes), -1)
    (blocks,) = jax.vmap(jaxpr_as_fun(index_map))(*positions)
    return np.asarray(blocks).reshape(sizes)


def _match_stride(blocks: np.ndarray[Any, Any]) -> tuple[int, int] | None:
    """Divide `blocks` into equal groups. Return the size of a group, and the distance between groups.

    `blocks` has the block numbers along a grid axis. [0, 1, 4, 5] gives (2, 4), and [0, 1, 0, 1] gives (2, 0). Return
    None for irregular or overlapping groups, such as [0, 1, 1, 2].
    """
    size = len(blocks)
    for positions in (n for n in range(1, size // 2 + 1) if size % n == 0):
        groups = blocks.reshape(size // positions, -1)
        stride = int(groups[1, 0] - groups[0, 0])
        is_regular = (groups == groups[0] + stride * np.arange(len(groups))[:, None]).all()
        is_disjoint = groups[0].min() >= 0 and groups[0].max() < stride
        if is_regular and (stride == 0 or (stride > 0 and is_disjoint)):
            return positions, stride
    return None
