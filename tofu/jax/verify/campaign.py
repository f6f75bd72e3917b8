"""Verify many cases: each distinct equation once, and whether descriptions miss a way to split it."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any

import jax

from tdl_ops.jax.case import PrimitiveCase
from tofu.errors import InternalError
from tofu.host.processes import map_in_processes
from tofu.jax.frontend.equations import Step
from tofu.jax.frontend.versions import in_double_precision, with_plain_tracebacks
from tofu.jax.verify.missing import find_missing
from tofu.jax.verify.nodes import EquationCase, list_signatures, make_node, trace_case
from tofu.jax.verify.primitives import VerifiedEquation, verify_node
from tofu.verification.cases import import_cases
from tofu.verification.missing import Explanation, Missing, explain
from tofu.verification.report import NodeReport

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
"""Ways to split an operator that are exact but that descriptions lack on purpose, each with the reason."""
DRAWS = 8
"""A way to split an operator counts as exact if it is exact for this many draws of random inputs."""


@dataclass(frozen=True)
class CaseReport:
    """Results for the equations of a case. `explained` has the missing strategies with a known reason."""

    case: str
    verified: tuple[VerifiedEquation, ...]
    missing: tuple[Missing, ...] = ()
    explained: tuple[tuple[Missing, str], ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that must be fixed in a description, the analysis, the backend or the case."""
        found = [f"{verified.report.op}: {problem}" for verified in self.verified for problem in verified.problems]
        return tuple(
            dict.fromkeys((*found, *(f"{missing.op}: missing strategy {missing.cut}" for missing in self.missing)))
        )


@cache
def load_cases() -> dict[str, PrimitiveCase]:
    """Return all cases by name, from `tdl_ops/jax/cases` and for kernels."""
    modules = [*import_cases("tdl_ops.jax.cases"), import_module("tofu.jax.verify.kernel_cases")]
    listed = [case for module in modules for case in getattr(module, "CASES", ())]
    named = {case.name: case for case in listed}
    if len(named) < len(listed):
        raise InternalError("Two cases have one name.")
    return named


def verify_cases(
    cases: Sequence[PrimitiveCase], primitives: Collection[str] = (), seed: int = 0, search: bool = True, jobs: int = 1
) -> Generator[CaseReport, None, None]:
    """Yield the results of each case, in order.

    Equations that agree in primitive, parameters, shapes and types (the *signature*) are verified once, in double
    precision. If `primitives` are passed, only their equations are verified. `search` also looks for missing
    strategies. `jobs` cases are verified at a time; more than 1 needs built-in cases.
    """
    wanted = list_wanted(cases, primitives, seed)
    if jobs == 1:
        for case in cases:
            yield verify_case(case, wanted[case.name], seed, search)
        return
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # for the worker processes
    run, names = partial(_verify_built_in, seed=seed, search=search), [case.name for case in cases]
    yield from map_in_processes(run, names, [wanted[name] for name in names], jobs=jobs)


def list_wanted(
    cases: Iterable[PrimitiveCase], primitives: Collection[str] = (), seed: int = 0
) -> Mapping[str, tuple[int, ...]]:
    """Return the positions of the equations to verify in each case: those whose signature no earlier case has."""
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


def verify_case(case: PrimitiveCase, numbers: Collection[int], seed: int = 0, search: bool = True) -> CaseReport:
    """Verify the equations of a case at the positions `numbers`."""
    if not numbers:
        return CaseReport(case.name, ())
    verified, found = [], list[Missing]()
    with in_double_precision(), with_plain_tracebacks():
        for number in numbers:
            try:
                node = _make_node(case, number, seed)
                done = verify_node(node)
                found += _find_missing(node, case, number, seed) if search and not done.problems else ()
            except Exception as error:  # the case cannot be run, or a description cannot be executed
                done = _report_failure(case, error)
            verified.append(done)
    _run_case.cache_clear()
    jax.clear_caches()  # frees the programs of this case
    reasons = [(missing, explain(missing, EXPLANATIONS)) for missing in dict.fromkeys(found)]
    return CaseReport(
        case.name,
        tuple(verified),
        tuple(missing for missing, reason in reasons if reason is None),
        tuple((missing, reason) for missing, reason in reasons if reason is not None),
    )


def _find_missing(node: EquationCase, case: PrimitiveCase, number: int, seed: int) -> Iterable[Missing]:
    """Return the missing strategies of an equation that are exact for several draws of random inputs.

    With one draw, a strategy may be exact by chance.
    """
    found = find_missing(node)
    for draw in range(1, DRAWS):
        found = found and tuple(
            missing for missing in find_missing(_make_node(case, number, seed + draw)) if missing in found
        )
    return found


def _make_node(case: PrimitiveCase, number: int, seed: int) -> EquationCase:
    step, known = _run_case(case, seed)
    return make_node(step, list(step.walk())[number], known)


@lru_cache(maxsize=2)
def _run_case(case: PrimitiveCase, seed: int) -> tuple[Step, dict[int, Any]]:
    step, arguments = trace_case(case, seed)
    return step, step.compute_all(arguments)


def _verify_built_in(name: str, numbers: Collection[int], seed: int, search: bool) -> CaseReport:
    return verify_case(load_cases()[name], numbers, seed, search)


def _report_failure(case: PrimitiveCase, error: Exception) -> VerifiedEquation:
    text = f"it cannot be verified: {type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
    return VerifiedEquation(NodeReport(case.name, None, "not verified", (), (), (text,)))
