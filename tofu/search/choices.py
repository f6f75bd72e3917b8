"""What a search decides, as numbers: an axis for each operator and a dimension for each tensor, at each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

REPLICATED = -1
FREE = -2  # in a partly fixed choice: left to the search

ChoiceArray = npt.NDArray[np.int32]


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


def factorize(workers: int) -> tuple[int, ...]:
    """The prime factors of the number of workers, largest first: 6 -> (3, 2). One recursion step for each (section 5.2)."""
    factors = []
    divisor, rest = 2, workers
    while rest > 1:
        if rest % divisor == 0:
            factors.append(divisor)
            rest //= divisor
        else:
            divisor += 1
    return tuple(reversed(factors))
