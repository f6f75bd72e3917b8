"""Many cases, some at a time: their equations, each signature once, and the strategies that are missing of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import jax

from tdl_ops.jax.case import Case
from tofu.errors import InternalError
from tofu.jax.frontend.equations import Step
from tofu.jax.frontend.versions import in_double_precision, with_plain_tracebacks
from tofu.jax.verify.missing import find_missing
from tofu.jax.verify.nodes import EquationCase, list_signatures, make_node, trace_case
from tofu.jax.verify.primitives import VerifiedEquation, verify_node
from tofu.verification.cases import import_cases
from tofu.verification.explained import Explanation, explain
from tofu.verification.missing import Missing
from tofu.verification.report import NodeReport

EXPLANATIONS = (
    Explanation(
        "dynamic_slice",
        r"inputs \(dimension \d, whole.*\) -> CONCAT along \d",
        "where the slice begins is known at run time alone; here it always begins in the same cell",
    ),
    Explanation(
        "scatter",
        r"inputs \(whole, dimension \d, dimension \d\) -> REDUCE",
        "parts that write into zeros add up where each cell is written once, as here; of others one of several values is kept",
    ),
    Explanation("loop_stack", r"inputs \(whole\) -> CONCAT along 0", "all workers take all steps of a loop"),
)
"""Exact cuts that are not strategies, each with the reason."""
DRAWS = 8
"""Of numbers with which a cut has to be exact."""


@dataclass(frozen=True)
class CaseReport:
    """What was found out about the equations of a case. `explained` are missing strategies that have a reason, `missing` the others."""

    case: str
    verified: tuple[VerifiedEquation, ...]
    missing: tuple[Missing, ...] = ()
    explained: tuple[tuple[Missing, str], ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that has to be mended, in a description, the analysis, the backend or the case."""
        found = [f"{one.report.op}: {problem}" for one in self.verified for problem in one.problems]
        return tuple(dict.fromkeys((*found, *(f"{one.op}: missing strategy {one.cut}" for one in self.missing))))


@cache
def load_cases() -> dict[str, Case]:
    """All cases by their names, in the order of the names of their files."""
    modules = [*import_cases("tdl_ops.jax.cases"), import_module("tofu.jax.verify.kernel_cases")]
    listed = [case for module in modules for case in getattr(module, "CASES", ())]
    named = {case.name: case for case in listed}
    if len(named) < len(listed):
        raise InternalError("Two cases have one name.")
    return named


def verify_cases(
    cases: Sequence[Case], primitives: Collection[str] = (), seed: int = 0, search: bool = True, jobs: int = 1
) -> Iterator[CaseReport]:
    """Verify the equations of each case in double precision, all or those of some primitives, each signature where it is first met.

    `search`: whether missing strategies are searched. `jobs` cases at a time, of those that are built in. Results come in the order of
    the cases.
    """
    wanted = list_wanted(cases, primitives, seed)
    if jobs == 1:
        for case in cases:
            yield verify_case(case, wanted[case.name], seed, search)
        return
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # of the processes to come
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        run = partial(_verify_built_in, seed=seed, search=search)
        yield from pool.map(run, (case.name for case in cases), (wanted[case.name] for case in cases))


def list_wanted(
    cases: Iterable[Case], primitives: Collection[str] = (), seed: int = 0
) -> Mapping[str, tuple[int, ...]]:
    """Which of the equations of each case are verified there, by their numbers: those whose signature no case before it has."""
    seen, wanted = set[str](), dict[str, tuple[int, ...]]()
    with in_double_precision():
        for case in cases:
            numbers = []
            for number, signature, _ in list_signatures(trace_case(case, seed)[0], primitives):
                if signature not in seen:
                    numbers.append(number)
                seen.add(signature)
            wanted[case.name] = tuple(numbers)
    return wanted


def verify_case(case: Case, numbers: Collection[int], seed: int = 0, search: bool = True) -> CaseReport:
    """Verify some equations of a case, by their numbers."""
    if not numbers:
        return CaseReport(case.name, ())
    verified, found = [], list[Missing]()
    with in_double_precision(), with_plain_tracebacks():
        for number in numbers:
            try:
                node = _make_node(case, number, seed)
                done = verify_node(node)
                found += _find_missing(node, case, number, seed) if search and not done.problems else ()
            except Exception as error:  # of a case that cannot be run, or of a description that cannot be executed
                done = _report_failure(case, error)
            verified.append(done)
    _run_case.cache_clear()
    jax.clear_caches()  # the programs that were compiled for this case's shapes
    reasons = [(one, explain(one, EXPLANATIONS)) for one in dict.fromkeys(found)]
    return CaseReport(
        case.name,
        tuple(verified),
        tuple(one for one, reason in reasons if reason is None),
        tuple((one, reason) for one, reason in reasons if reason is not None),
    )


def _find_missing(node: EquationCase, case: Case, number: int, seed: int) -> Iterable[Missing]:
    """What is missing of an equation's strategies whatever numbers it is given: the largest of a few may be in the right part by chance."""
    found = find_missing(node)
    for other in range(1, DRAWS):
        found = found and tuple(one for one in find_missing(_make_node(case, number, seed + other)) if one in found)
    return found


def _make_node(case: Case, number: int, seed: int) -> EquationCase:
    step, known = _run_case(case, seed)
    return make_node(step, list(step.walk())[number], known)


@lru_cache(maxsize=2)
def _run_case(case: Case, seed: int) -> tuple[Step, dict[int, Any]]:
    step, arguments = trace_case(case, seed)
    return step, step.compute_all(arguments)


def _verify_built_in(name: str, numbers: Collection[int], seed: int, search: bool) -> CaseReport:
    return verify_case(load_cases()[name], numbers, seed, search)


def _report_failure(case: Case, error: Exception) -> VerifiedEquation:
    text = f"it cannot be verified: {type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
    return VerifiedEquation(NodeReport(case.name, None, "not verified", (), (), (text,)))
