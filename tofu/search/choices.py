"""What a search decides, as numbers: an axis for each operator and a dimension for each tensor, at each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import factorial, prod
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from tofu.graph import Graph

REPLICATED = -1
FREE = -2  # in a partly fixed choice: left to the search
MOST_ORDERS = 64  # of the steps that are searched; below 720 workers there are no more

ChoiceArray = npt.NDArray[np.int32]


class Fixed(NamedTuple):
    """Choices that a search may not change: operator -> an axis at each step, tensor -> a dimension; FREE where the search decides."""

    operators: dict[int, list[int]]
    tensors: dict[int, list[int]]


class NativeChoices(TypedDict):
    """Choices as the arguments of a native function."""

    operators: ChoiceArray
    tensors: ChoiceArray
    kept: tuple[int, ...]
    reread: tuple[int, ...]


@dataclass(frozen=True)
class Choices:
    """A choice for everything: `operators[o, step]` is an axis and `tensors[t, step]` a dimension, -1 where replicated.

    The operators are those of the graph, followed by the weight updates. `kept` are the tensors of which a region that a worker has
    fetched stays for all of its readers; of others, operators of one group share it, and of those in `reread` nobody does.
    """

    operators: ChoiceArray
    tensors: ChoiceArray
    kept: tuple[int, ...] = ()
    reread: tuple[int, ...] = ()

    @property
    def native(self) -> NativeChoices:
        """The same for `tofu._core`."""
        return {"operators": self.operators, "tensors": self.tensors, "kept": self.kept, "reread": self.reread}

    def layout(self, tensor: int) -> list[int]:
        """The dimension of a tensor that is split at each step."""
        return [int(dimension) for dimension in self.tensors[tensor]]

    def is_same(self, other: Choices) -> bool:
        """Return True if the other choices are the same."""
        arrays = ((self.operators, other.operators), (self.tensors, other.tensors))
        return (self.kept, self.reread) == (other.kept, other.reread) and all(np.array_equal(*pair) for pair in arrays)


def make_choices(
    graph: Graph,
    factors: Sequence[int],
    operators: Sequence[Sequence[int]],
    tensors: Sequence[Sequence[int]],
    kept: Sequence[int] = (),
    reread: Sequence[int] = (),
) -> Choices:
    """Choices of a row for each operator of the graph and for each tensor: a weight update takes its weight's layout."""
    rows, layouts = (
        np.array(numbers, np.int32).reshape(len(numbers), len(factors)) for numbers in (operators, tensors)
    )
    updates = layouts[[variable for variable, _ in graph.updates]]
    return Choices(np.concatenate([rows, updates]), layouts, tuple(kept), tuple(reread))


def factorize(workers: int) -> tuple[int, ...]:
    """The prime factors of the number of workers, largest first: 6 -> (3, 2). One recursion step for each (section 5.2)."""
    factors = []
    divisor, rest = 2, workers
    while divisor * divisor <= rest:
        if rest % divisor == 0:
            factors.append(divisor)
            rest //= divisor
        else:
            divisor += 1
    return tuple(reversed([*factors, rest] if rest > 1 else factors))


def list_orders(factors: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The different orders of the factors, those that begin with the largest first; the first `MOST_ORDERS` of them.

    >>> list_orders((3, 2, 2))
    ((3, 2, 2), (2, 3, 2), (2, 2, 3))
    """
    return tuple(islice(_walk_orders(Counter(factors), len(factors)), MOST_ORDERS))


def count_orders(factors: Sequence[int]) -> int:
    """Return the number of different orders of the factors.

    >>> count_orders((3, 2, 2))
    3
    """
    return factorial(len(factors)) // prod(map(factorial, Counter(factors).values()))


def _walk_orders(left: Counter[int], length: int) -> Iterator[tuple[int, ...]]:
    if length == 0:
        yield ()
    for factor in sorted((factor for factor, count in left.items() if count), reverse=True):
        yield from ((factor, *rest) for rest in _walk_orders(left - Counter([factor]), length - 1))
