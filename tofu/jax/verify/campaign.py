"""Verify the equations (JAX operations) of many cases, and search for ways to split that descriptions lack."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any

import jax
import numpy as np

from tdl_ops.jax import DESCRIPTIONS, WHOLE
from tdl_ops.jax.case import PrimitiveCase
from tofu.errors import InternalError
from tofu.host.processes import map_in_processes
from tofu.jax.frontend.equations import Step
from tofu.jax.frontend.versions import in_double_precision, with_plain_tracebacks
from tofu.jax.verify.nodes import EquationCase, list_signatures, make_node, trace_case
from tofu.jax.verify.primitives import VerifiedEquation, analyse_node, verify_node
from tofu.verification.cases import import_cases
from tofu.verification.cuts import Cut, Geometry, Role, find_cut, list_geometries
from tofu.verification.kernel import Array
from tofu.verification.missing import Explanation, Missing, find_uncovered, separate_explained
from tofu.verification.report import NodeReport
from tofu.verification.windows import list_window_geometries

EXPLANATIONS = (
    Explanation(
        "dynamic_slice",
        r"inputs \(dimension \d, whole.*\) -> concatenated along \d",
        "the start of the slice is known only at run time; here it is always the same",
    ),
    Explanation(
        "scatter",
        r"inputs \(whole, dimension \d, dimension \d\) -> reduced",
        "shards that write into zeros add up if each element is written once, as here; otherwise one of several values remains",
    ),
    Explanation("loop_stack", r"inputs \(whole\) -> concatenated along 0", "all workers run all iterations of a loop"),
)
"""Ways to split an operator that are exact, but are left out of its description on purpose. Each has a reason."""
DRAWS = 8
"""A way to split an operator counts as exact if the results are exact for this many random inputs."""


@dataclass(frozen=True)
class CaseReport:
    """Results of verifying one case.

    `missing` lists splits that are correct, but not in the description. `explained` lists correct splits that are left
    out of the description for a known reason, as pairs (split, reason).
    """

    case: str
    verified: tuple[VerifiedEquation, ...]
    missing: tuple[Missing, ...] = ()
    explained: tuple[tuple[Missing, str], ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages about all mistakes found."""
        problems = [f"{verified.report.op}: {problem}" for verified in self.verified for problem in verified.problems]
        return tuple(
            dict.fromkeys((*problems, *(f"{missing.op}: missing strategy {missing.cut}" for missing in self.missing)))
        )


@cache
def load_cases() -> dict[str, PrimitiveCase]:
    """Return all built-in cases by name."""
    modules = [*import_cases("tdl_ops.jax.cases"), import_module("tofu.jax.verify.kernel_cases")]
    cases = [case for module in modules for case in getattr(module, "CASES", ())]
    case_by_name = {case.name: case for case in cases}
    if len(case_by_name) < len(cases):
        raise InternalError("Two cases have one name.")
    return case_by_name


def verify_cases(
    cases: Sequence[PrimitiveCase], primitives: Collection[str] = (), seed: int = 0, search: bool = True, jobs: int = 1
) -> Generator[CaseReport, None, None]:
    """Yield the results of each case, in order.

    JAX operations with the same name, parameters, shapes and types are verified once. If `primitives` is not empty,
    only these operations are verified. With `search=True`, also report axes along which an operation can be split
    although its description does not allow this. If `jobs` > 1, cases run in parallel, and must be from `load_cases`.
    """
    numbers_by_case = list_distinct(cases, primitives, seed)
    if jobs == 1:
        for case in cases:
            yield verify_case(case, numbers_by_case[case.name], seed, search)
        return
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # for the worker processes
    verify_by_name, names = partial(_verify_built_in, seed=seed, search=search), [case.name for case in cases]
    yield from map_in_processes(verify_by_name, names, [numbers_by_case[name] for name in names], jobs=jobs)


def list_distinct(
    cases: Iterable[PrimitiveCase], primitives: Collection[str] = (), seed: int = 0
) -> Mapping[str, tuple[int, ...]]:
    """For each case, list the positions of the JAX operations to verify, such as {"add": (0, 2)}.

    If several operations are equal, list only the first.
    """
    seen_signatures, numbers_by_case = set[str](), dict[str, tuple[int, ...]]()
    with in_double_precision():
        for case in cases:
            numbers = []
            for number, signature, _ in list_signatures(trace_case(case, seed)[0], primitives):
                if signature not in seen_signatures:
                    numbers.append(number)
                seen_signatures.add(signature)
            numbers_by_case[case.name] = tuple(numbers)
    return numbers_by_case


def verify_case(case: PrimitiveCase, numbers: Collection[int], seed: int = 0, search: bool = True) -> CaseReport:
    """Verify some JAX operations of a case. `numbers` are their positions in the case's program."""
    if not numbers:
        return CaseReport(case.name, ())
    results, missing_strategies = [], list[Missing]()
    with in_double_precision(), with_plain_tracebacks():
        for number in numbers:
            try:
                node = _make_node(case, number, seed)
                result = verify_node(node)
                missing_strategies += (
                    _find_missing_in_all_draws(node, case, number, seed) if search and not result.problems else ()
                )
            except Exception as error:  # the case cannot be run, or a description cannot be executed
                result = _report_failure(case, error)
            results.append(result)
    _run_case.cache_clear()
    jax.clear_caches()  # frees the programs of this case
    missing, explained = separate_explained(dict.fromkeys(missing_strategies), EXPLANATIONS)
    return CaseReport(case.name, tuple(results), missing, explained)


def _find_missing(node: EquationCase) -> tuple[Missing, ...]:
    """Return the correct splits of a JAX operation that are missing in its description.

    Return () for element-wise equations, loops, branches, and kernels that are described by a split rule, such as
    "b h _ -> b h _".
    """
    access = analyse_node(DESCRIPTIONS[node.op], node)
    if access.elementwise or node.op in WHOLE or "call" in node.equation.params:
        return ()
    floating_inputs = [n for n, array in enumerate(node.inputs) if array.dtype.kind == "f"]
    geometries = [*list_geometries(node, ()), *list_window_geometries(node, floating_inputs, ())]
    # A constant output is exact however its operands are split.
    is_informative = [bool(np.any(output)) for output in node.outputs]
    cuts_or_none = (_try_geometry(node, geometry, is_informative) for geometry in geometries)
    cuts = (cut for cut in cuts_or_none if cut is not None)
    return tuple(Missing(node.op, cut) for cut in find_uncovered(cuts, access, is_informative))


def _try_geometry(node: EquationCase, geometry: Geometry, is_informative: Sequence[bool]) -> Cut | None:
    def run_part(split: int, part: int) -> Sequence[Array] | None:
        inputs = [geometry.cut_input(n, array, split, part) for n, array in enumerate(node.inputs)]
        shapes = geometry.pieces[split][part]
        results = node.try_run(geometry.shrink(node.values, split, part), inputs, shapes)
        return None if results is None or tuple(array.shape for array in results) != shapes else results

    inputs: list[Role] = [("input", n) for n in range(len(node.inputs))]
    outputs: list[Role] = [("output", n) for n in range(len(node.outputs))]
    return find_cut(geometry, node.outputs, (inputs, outputs), is_informative, run_part)


def _find_missing_in_all_draws(node: EquationCase, case: PrimitiveCase, number: int, seed: int) -> Iterable[Missing]:
    # For a single draw of random inputs, a strategy may be exact by chance.
    missing_strategies = _find_missing(node)
    for draw in range(1, DRAWS):
        missing_strategies = missing_strategies and tuple(
            missing for missing in _find_missing(_make_node(case, number, seed + draw)) if missing in missing_strategies
        )
    return missing_strategies


def _make_node(case: PrimitiveCase, number: int, seed: int) -> EquationCase:
    step, values = _run_case(case, seed)
    return make_node(step, list(step.walk())[number], values)


@lru_cache(maxsize=2)
def _run_case(case: PrimitiveCase, seed: int) -> tuple[Step, dict[int, Any]]:
    step, arguments = trace_case(case, seed)
    return step, step.compute_all(arguments)


def _verify_built_in(name: str, numbers: Collection[int], seed: int, search: bool) -> CaseReport:
    return verify_case(load_cases()[name], numbers, seed, search)


def _report_failure(case: PrimitiveCase, error: Exception) -> VerifiedEquation:
    text = f"it cannot be verified: {type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
    return VerifiedEquation(NodeReport(case.name, None, "not verified", (), (), (text,)))
