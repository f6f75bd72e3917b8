"""Solvers of others for choices whose costs lie in tables of pairs: HiGHS, an integer program, and toulbar2, a cost function network.

The program has a binary variable for each choice and a fraction for each pair of choices that meet in a table; the fractions of a pair add
up to the binaries on both sides. The network has the tables as they are. A table of somebody with itself counts by its diagonal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt
from pytoulbar2 import CFN

Sizes = Mapping[Any, int]  # who decides -> how many choices there are
Tables = Mapping[tuple[Any, Any], npt.NDArray[np.int64]]


def solve_program(sizes: Sizes, tables: Tables, seconds: float) -> int | None:
    """The least cost by HiGHS, or None where it has not ended in time."""
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("time_limit", float(seconds))
    solver.setOptionValue("mip_rel_gap", 0.0)
    unit = int(np.gcd.reduce([np.gcd.reduce(table, axis=None) for table in tables.values()])) or 1
    taken = {who: [solver.addBinary() for _ in range(size)] for who, size in sizes.items()}
    for binaries in taken.values():
        solver.addConstr(solver.qsum(binaries) == 1)
    costs = []
    for (a, b), table in tables.items():
        if a == b:
            costs += [cost * one for cost, one in zip((np.diagonal(table) // unit).tolist(), taken[a], strict=True)]
            continue
        both = [[solver.addVariable(0, 1) for _ in taken[b]] for _ in taken[a]]
        for row, binary in zip(both, taken[a], strict=True):
            solver.addConstr(solver.qsum(row) == binary)
        for column, binary in zip(zip(*both, strict=True), taken[b], strict=True):
            solver.addConstr(solver.qsum(column) == binary)
        for prices, row in zip((table // unit).tolist(), both, strict=True):
            costs += [cost * one for cost, one in zip(prices, row, strict=True)]
    solver.minimize(solver.qsum(costs))
    is_solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return round(solver.getObjectiveValue()) * unit if is_solved else None


def solve_network(sizes: Sizes, tables: Tables, seconds: float) -> int | None:
    """The least cost by toulbar2, or None where it has not ended in time: it does not tell whether it stopped there."""
    network = CFN()
    place: dict[Hashable, int] = {
        who: network.AddVariable(f"v{n}", range(size)) for n, (who, size) in enumerate(sizes.items())
    }
    for (a, b), table in tables.items():
        if a == b:
            network.AddFunction([place[a]], np.diagonal(table).tolist())
        else:
            network.AddFunction([place[a], place[b]], table.ravel().tolist())
    started = time.perf_counter()
    solved = network.Solve(timeLimit=round(seconds))
    return round(solved[1]) if solved and time.perf_counter() - started < 0.9 * seconds else None


SOLVERS: Mapping[str, Callable[[Sizes, Tables, float], int | None]] = {
    "HiGHS": solve_program,
    "toulbar2": solve_network,
}
