"""Verify many cases (an operator with attributes and inputs), several at a time in separate processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tdl_ops.mxnet.case import Case
from tofu.host.processes import map_in_processes
from tofu.mxnet.verify.explained import EXPLANATIONS
from tofu.mxnet.verify.kernels import describe_refusal
from tofu.mxnet.verify.missing import find_missing, try_geometry
from tofu.mxnet.verify.sandbox import ProcessEndedError, Sandbox
from tofu.mxnet.verify.trials import Trials, try_variants, verify_apart
from tofu.verification.missing import Missing, separate_explained
from tofu.verification.report import Report
from tofu.verification.windows import list_window_geometries


@dataclass(frozen=True)
class CaseResult:
    """Result of verifying a case, which is an operator with attributes and inputs.

    Attributes
    ----------
    trials
        Results for random variants of the case.
    missing
        Correct splits that Tofu misses by mistake.
    explained
        Other correct splits, each with the reason why Tofu does not offer it.
    """

    case: Case
    report: Report
    trials: Trials
    missing: tuple[Missing, ...]
    explained: tuple[tuple[Missing, str], ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages about mistakes in the operator's description or in the case."""
        failure = self.trials.failure
        problems = [*self.report.problems, *self.report.refusals]
        problems += [] if failure is None else [f"at another signature: {failure.problems[0]}"]
        return (*problems, *(f"{strategy.op}: missing strategy {strategy.cut}" for strategy in self.missing))

    @property
    def broken_operators(self) -> frozenset[str]:
        """Operators with problems. If a problem names no operator, all operators of the case."""
        failure = self.trials.failure
        problems = [*self.report.problems, *self.report.refusals, *([] if failure is None else failure.problems)]
        names = {re.split("[:,]", problem)[0] for problem in problems} | {strategy.op for strategy in self.missing}
        operators = frozenset(node.op for node in self.report.nodes)
        return operators if names - operators else operators & names


def verify_cases(
    cases: Iterable[Case],
    examples: int = 0,
    seed: int = 0,
    search: bool = True,
    modules: Sequence[str] = (),
    jobs: int = 1,
) -> Generator[CaseResult, None, None]:
    """Verify cases in `jobs` processes, and yield a result for each.

    Also verify `examples` random variants of each case. With `search=True`, also find correct splits that Tofu does not
    offer. `modules` are imported first, because they describe operators.
    """
    if jobs == 1:
        with Sandbox(modules) as sandbox:
            for case in cases:
                yield _verify(sandbox, case, examples, seed, search)
        return
    verify = partial(_verify_in_process, examples=examples, seed=seed, search=search)
    yield from map_in_processes(verify, cases, jobs=jobs, start=_open_sandbox, start_arguments=(modules,))


_sandboxes: list[Sandbox] = []  # one sandbox in each process of `verify_cases`


def _open_sandbox(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)
    _sandboxes.append(Sandbox(modules))


def _verify_in_process(case: Case, examples: int, seed: int, search: bool) -> CaseResult:
    return _verify(_sandboxes[0], case, examples, seed, search)


def _verify(sandbox: Sandbox, case: Case, examples: int, seed: int, search: bool) -> CaseResult:
    def call(function: Callable[..., Any], if_ended: Any, *arguments: Any) -> Any:
        try:
            return sandbox.call(function, *arguments)
        except ProcessEndedError:
            return if_ended

    try:
        report = verify_apart(sandbox, case)
    except Exception as error:
        problem = f"the case cannot be run: {type(error).__name__}: {describe_refusal(error)}"
        return CaseResult(case, Report.of_problem(case.op, problem), Trials(0, 0, None), (), ())
    trials = Trials(0, 0, None)
    if examples and report.is_verified:
        trials = try_variants(case, examples, lambda variant: verify_apart(sandbox, variant), seed)
    all_missing: tuple[Missing, ...] = ()
    if search and report.is_verified:
        all_missing = find_missing(case, partial(call, try_geometry, None), partial(call, list_window_geometries, []))
    return CaseResult(case, report, trials, *separate_explained(all_missing, EXPLANATIONS))
