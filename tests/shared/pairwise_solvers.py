"""Independent solvers for choices with costs in pairwise tables: HiGHS (integer program) and toulbar2 (cost function network)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt
from pytoulbar2 import CFN
from scipy.sparse import coo_array

Sizes = Mapping[Any, int]  # variable -> number of choices
Table = npt.NDArray[np.int64]
Tables = Mapping[tuple[Any, Any], Table]
FORBIDDEN = np.iinfo(np.int64).max
"""Table entry of a forbidden pair."""


@dataclass(frozen=True)
class Solved:
    found: int | None
    bound: int

    @property
    def optimum(self) -> int | None:
        return self.found if self.found is not None and self.bound >= self.found else None


def solve_program(sizes: Sizes, tables: Tables, seconds: float) -> Solved:
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("time_limit", float(seconds))
    solver.setOptionValue("mip_rel_gap", 0.0)
    unit = int(np.gcd.reduce([np.gcd.reduce(table[table != FORBIDDEN], axis=None) for table in tables.values()])) or 1
    binaries, program = sum(sizes.values()), _Program(sizes)
    for pair, table in tables.items():
        program.add(*pair, table, unit)
    costs, most = np.concatenate(program.costs), np.ones(program.columns)
    most[list(program.barred)] = 0
    columns = np.arange(program.columns, dtype=np.int32)
    solver.addVars(len(columns), np.zeros(len(columns)), most)
    solver.changeColsCost(len(columns), columns, costs)
    integers = np.full(binaries, highspy.HighsVarType.kInteger)
    solver.changeColsIntegrality(binaries, columns[:binaries], integers)
    rows, sums = program.list_rows(), np.repeat((1.0, 0.0), (len(sizes), program.rows - len(sizes)))
    starts, indices = rows.indptr.astype(np.int32), rows.indices.astype(np.int32)
    solver.addRows(program.rows, sums, sums, rows.nnz, starts[:-1], indices, rows.data)
    solver.run()
    info = solver.getInfo()
    has_found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        least = round(info.objective_function_value) * unit
        return Solved(least, least)
    bound = ceil(info.mip_dual_bound - 1e-6) * unit if isfinite(info.mip_dual_bound) else 0
    return Solved(round(info.objective_function_value) * unit if has_found else None, max(0, bound))


class _Program:
    """Columns and rows of the integer program: binaries of all variables first, then those of each table."""

    def __init__(self, sizes: Sizes) -> None:
        ends = np.cumsum([*sizes.values()]).tolist()
        self._place = {who: end - size for (who, size), end in zip(sizes.items(), ends, strict=True)}
        self._sizes = sizes
        self.costs = [np.zeros(ends[-1])]
        self.columns, self.rows = ends[-1], len(sizes)
        self.barred: set[int] = set()
        owners = np.repeat(np.arange(len(sizes)), [*sizes.values()])
        self._entries = [(owners, np.arange(ends[-1]), np.ones(ends[-1]))]  # one choice of each variable

    def add(self, a: Any, b: Any, table: Table, unit: int) -> None:
        if a == b:
            own = np.diagonal(table)
            self.barred.update((self._place[a] + np.flatnonzero(own == FORBIDDEN)).tolist())
            self.costs[0][self._place[a] : self._place[a] + len(own)] += np.where(own == FORBIDDEN, 0, own // unit)
            return
        sides = np.nonzero(table != FORBIDDEN)
        fractions = self.columns + np.arange(len(sides[0]))
        self.columns += len(fractions)
        self.costs.append((table[sides] // unit).astype(np.float64))
        for who, side in zip((a, b), sides, strict=True):
            size = self._sizes[who]
            self._entries.append((self.rows + side, fractions, np.ones(len(side))))
            self._entries.append((self.rows + np.arange(size), self._place[who] + np.arange(size), -np.ones(size)))
            self.rows += size

    def list_rows(self) -> Any:
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        return coo_array((values, (rows, columns)), shape=(self.rows, self.columns)).tocsr()


def solve_network(sizes: Sizes, tables: Tables, seconds: float) -> Solved:
    network = CFN()
    place = {who: network.AddVariable(f"v{n}", range(size)) for n, (who, size) in enumerate(sizes.items())}
    for (a, b), table in tables.items():
        own = np.diagonal(table) if a == b else table
        costs = np.where(own == FORBIDDEN, network.Top, own.astype(np.float64)).ravel().tolist()
        network.AddFunction([place[a]] if a == b else [place[a], place[b]], costs)
    solved = network.Solve(timeLimit=round(seconds))
    bound = ceil(network.GetDDualBound() - 1e-6)
    return Solved(round(solved[1]) if solved else None, bound)


SOLVERS: Mapping[str, Callable[[Sizes, Tables, float], Solved]] = {"HiGHS": solve_program, "toulbar2": solve_network}
