"""Verify random variants of a case, and find the smallest variant that fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from tdl_ops.mxnet.case import Case
from tofu.errors import UnsupportedError
from tofu.mxnet.verify.cases import verify_case
from tofu.mxnet.verify.defects import find_defect
from tofu.mxnet.verify.kernels import describe_refusal, is_refusal
from tofu.mxnet.verify.nodes import execute_training_graph
from tofu.mxnet.verify.sandbox import ProcessEndedError, Sandbox
from tofu.tdl.interpreter import TooManyPointsError
from tofu.verification.report import Report

Verify = Callable[[Case], Report]


@dataclass(frozen=True)
class Failure:
    """A variant of a case that failed. It prints as a script that repeats the failure."""

    case: Case
    problems: tuple[str, ...]

    def __repr__(self) -> str:
        script = ["from tofu.mxnet.verify import *", f"print(verify_case({self.case!r}))"]
        return "\n".join([*(f"- {problem}" for problem in self.problems), *(f"    {line}" for line in script)])


@dataclass(frozen=True)
class Trials:
    """Numbers of verified and refused variants of a case, and the smallest variant that failed.

    A variant is refused if MXNet does not accept it, ends the process, or is known to compute it wrong.
    """

    verified: int
    refused: int
    failure: Failure | None


def verify_apart(sandbox: Sandbox, case: Case) -> Report:
    """Run `verify_case` in another process, `sandbox`.

    If the process crashes twice, run the operator without splits. Raise ProcessEndedError if it crashes again.
    """
    for _ in range(2):
        with suppress(ProcessEndedError):
            return sandbox.call(verify_case, case)
    sandbox.call(_run_whole, case)
    return Report.of_problem(case.op, "MXNet ends its process on a part")


def _run_whole(case: Case) -> None:
    execute_training_graph(case.op, case.attributes, case.draw_inputs(), case.wrt, seed=1)


def try_variants(case: Case, examples: int, verify: Verify, seed: int = 0) -> Trials:
    """Verify `examples` random variants of a case. If a variant fails, search for the smallest variant that fails.

    Raise UnsupportedError if the package hypothesis is not installed.
    """
    hypothesis = _import_hypothesis()
    from tofu.mxnet.verify.variants import variants

    verified, refused = set[str](), set[str]()
    failures: list[Failure] = []

    def fail(variant: Case, problems: tuple[str, ...]) -> NoReturn:
        failures.append(Failure(variant, problems))
        raise _DisagreementError

    def check(variant: Case) -> None:
        if find_defect(variant):
            refused.add(str(variant))
            return
        try:
            report = verify(variant)
        except TooManyPointsError:
            hypothesis.reject()
        except Exception as error:
            if not (isinstance(error, ProcessEndedError | UnsupportedError) or is_refusal(error)):
                fail(variant, (f"{variant.op}: {type(error).__name__}: {describe_refusal(error)}",))
            refused.add(str(variant))
            return
        if report.problems:
            fail(variant, report.problems)
        (refused if report.refusals else verified).add(str(variant))

    check_variants = hypothesis.given(variants(case))(check)
    try:
        hypothesis.seed(seed)(_quiet_settings(hypothesis, examples)(check_variants))()
    except _DisagreementError:  # the last variant that ran is the smallest
        return Trials(len(verified), len(refused), failures[-1])
    except hypothesis.errors.Flaky:
        flaky = Failure(failures[-1].case, (*failures[-1].problems, "but not every time"))
        return Trials(len(verified), len(refused), flaky)
    except hypothesis.errors.Unsatisfiable:
        pass  # MXNet accepts only the signature of the case
    return Trials(len(verified), len(refused), None)


def _quiet_settings(hypothesis: Any, examples: int) -> Any:
    return hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )


class _DisagreementError(Exception):
    pass


def _import_hypothesis() -> Any:
    try:
        import hypothesis
    except ImportError as error:
        raise UnsupportedError(
            "Variants of the built-in cases are drawn by hypothesis, which is not installed: pip install hypothesis, or use --examples 0."
        ) from error
    return hypothesis
