"""`python -m tofu ops` and `python -m tofu verify`: list the described MXNet operators, and verify descriptions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from fnmatch import fnmatchcase
from importlib import import_module
from io import StringIO
from typing import Any

import click
import mxnet as mx
from rich.console import Console

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.command_line.arguments import read_attribute, read_extents
from tofu.command_line.planning_options import takes
from tofu.command_line.running import VERIFYING, collect, list_explained_cuts, print_outcome
from tofu.errors import TofuError, suggest_several
from tofu.mxnet.verify import Case, verify_operator
from tofu.mxnet.verify.campaign import CaseResult, verify_cases
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.coverage import (
    NOT_DESCRIBED,
    count_coverage,
    count_kinds,
    count_lines,
    coverage_lines,
    coverage_rows,
    kinds_line,
    read_operator_sets,
    results_table,
)
from tofu.mxnet.verify.kernels import compose, describe_refusal
from tofu.mxnet.verify.nodes import list_operators
from tofu.mxnet.verify.record import RecordEntry, make_entries, read_record, write_record
from tofu.report.console import print_list


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the table and the totals as JSON.")
def ops(names: tuple[str, ...], as_json: bool) -> None:
    """List the MXNet operators that Tofu can split.

    With NAMES, only lists operators whose name contains one of NAMES, or matches a pattern such as "conv*".

    The column "verified" shows how `python -m tofu verify --record` compared the description with MXNet's kernel: by
    the numbers of the output, by a relation between inputs and outputs (for random operators), or only by the results
    of running the kernel in parts. "no" means that nothing was compared, or that the description has changed since.

    \b
    Examples:
        python -m tofu ops
        python -m tofu ops conv pool
        python -m tofu ops "*_update"
        python -m tofu ops --json
    """  # noqa: D301  click reads the escape
    entries = read_record()
    operators_by_set = read_operator_sets()
    all_names = sorted({*DESCRIPTIONS, *NOT_DESCRIBED}, key=str.lower)
    listed_names = [name for name in all_names if not names or any(_matches(name, pattern) for pattern in names)]
    if unmatched := [pattern for pattern in names if not any(_matches(name, pattern) for name in all_names)]:
        advice = suggest_several(unmatched[0], DESCRIPTIONS)
        raise TofuError(f"No described operator has {' or '.join(unmatched)} in its name{advice}")
    coverage = {name: count_coverage(operators, entries) for name, operators in operators_by_set.items()}
    if as_json:
        median, largest, _ = count_lines()
        operators = {name: asdict(entries[name]) if name in entries else None for name in listed_names}
        totals = {name: asdict(counts) for name, counts in coverage.items()}
        line_counts = {"median": median, "largest": largest}
        kinds = count_kinds(entries.get(name) for name in listed_names)
        summary = {**totals, "compared": kinds, "description_lines": line_counts, "operators": operators}
        click.echo(json.dumps(summary, indent=1))
        return
    lines = [*coverage_rows(listed_names, entries, bool(names)), *coverage_lines(listed_names, entries, coverage)]
    click.echo("\n".join(lines))


def _matches(name: str, pattern: str) -> bool:
    name, pattern = name.lower(), pattern.lower()
    return fnmatchcase(name, pattern) if set(pattern) & set("*?[") else pattern in name


@click.command()
@click.argument("names", nargs=-1, metavar="[OPERATOR]...")
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Number of random variations of sizes and attributes for each built-in case.",
)
@takes(VERIFYING)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="D0,D1,...",
    help="Verify OPERATOR for one shape of each input, in their order.",
)
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="With --shape: an attribute of the operator."
)
@click.option("--parts", default="2,3,4", show_default=True, help="With --shape: numbers of parts to split into.")
@click.option("--module", "modules", multiple=True, help="Python module with your own descriptions and their CASES.")
@click.option(
    "--record",
    is_flag=True,
    help="Record the results for `python -m tofu ops`. Without OPERATOR, verify the descriptions that have changed.",
)
@click.option("--all", "everything", is_flag=True, help="With --record: verify all descriptions.")
@click.option(
    "--jax", "_jax", is_flag=True, help="Verify JAX's primitives instead; see `python -m tofu verify --jax --help`."
)
def verify(
    names: tuple[str, ...],
    examples: int,
    seed: int,
    missing: bool,
    shapes: tuple[str, ...],
    attributes: tuple[str, ...],
    parts: str,
    modules: tuple[str, ...],
    record: bool,
    everything: bool,
    jobs: int,
    as_json: bool,
    _jax: bool,
) -> None:
    """Compare Tofu's descriptions with MXNet's own kernels.

    A description tells Tofu what an operator computes, and so how it can be split; a strategy is one way to split
    it. Verifies all descriptions, or only those of each OPERATOR and its gradient, in float64.

    To verify a model, write `python -m tofu verify model-symbol.json` or `train.py:step`. `python -m tofu
    verify-model --help` describes this.

    \b
    Three checks are made:
      (a) NumPy computes the description, and the result must equal the kernel's.
      (b) The operator is split by each strategy into 2, 3 and 4 uneven parts.
          Together they must equal the whole result.
      (c) Other splits are tried. A split that works must be a strategy.

    Each check first runs on built-in cases, then on random variations of their sizes and attributes. A failure is
    reduced to the smallest sizes that still fail, and printed with Python code that reproduces it. The exit status
    is then 1. Variations that MXNet or a description refuses are counted.

    \b
    Examples:
        python -m tofu verify
        python -m tofu verify Convolution softmax --examples 100
        python -m tofu verify dot --shape 6,8 --shape 8,5
        python -m tofu verify Convolution --shape 4,6,9,9 --attribute "kernel=(3,3)" --attribute num_filter=8
        python -m tofu verify my_operator --module my_descriptions
        python -m tofu verify --record --all
    """  # noqa: D301  click reads the escape
    os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")  # otherwise MXNet announces its backend for each bound graph
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the worker processes, which run small kernels in parallel
    start_seconds = time.monotonic()
    if record and modules:
        raise TofuError("--record is for the built-in descriptions. Leave --module out.")
    cases_of_modules = [case for module in modules for case in _import_cases(module)]
    if attributes and not shapes:
        raise TofuError("--attribute belongs to one signature. Add --shape for each input.")
    if shapes:
        _verify_signature(names, shapes, attributes, parts)
        return
    recorded_entries = read_record()
    available = [*load_cases(), *cases_of_modules]
    targets = set(names)
    if record and not names:
        changed_operators = DESCRIPTIONS.keys() - ({} if everything else recorded_entries).keys()
        targets = changed_operators & set[str]().union(*map(_list_operators, available))
    if record or not targets <= {case.op for case in available}:
        cases = _find_cases(targets, available)
    else:
        cases = [case for case in available if case.op in (targets or {case.op})]
    case_results = verify_cases(cases, examples, seed, missing, modules, min(jobs, len(cases) // 8 + 1))
    results: list[CaseResult] = []
    try:
        collect(case_results, len(cases), results)
    except KeyboardInterrupt as error:
        if record:
            error.args = (_record_finished(results, cases, targets, recorded_entries),)
        raise
    entries = make_entries(results)
    print_outcome(
        as_json,
        lambda: _summarize_as_json(results, entries),
        lambda console: _print_results(console, results, entries),
        start_seconds,
    )
    if record:
        _write_record(entries, targets, recorded_entries)
    if any(result.problems for result in results):
        raise SystemExit(1)


def _write_record(
    entries: Mapping[str, RecordEntry], verified_operators: Collection[str], recorded_entries: Mapping[str, RecordEntry]
) -> None:
    kept_names = (recorded_entries.keys() & DESCRIPTIONS.keys()) - set(verified_operators)
    new_names = entries.keys() & set(verified_operators)
    write_record({name: recorded_entries[name] for name in kept_names} | {name: entries[name] for name in new_names})


def _record_finished(
    results: Sequence[CaseResult],
    cases: Sequence[Case],
    targets: Collection[str],
    recorded_entries: Mapping[str, RecordEntry],
) -> str:
    # After an interrupt, `results` has the first cases only.
    unfinished_operators = set[str]().union(*map(_list_operators, cases[len(results) :]))
    finished_operators = set(targets) - unfinished_operators
    _write_record(make_entries(results), finished_operators, recorded_entries)
    return f"{len(finished_operators)} of {len(targets)} operators are recorded."


def _import_cases(module: str) -> list[Case]:
    try:
        return list(getattr(import_module(module), "CASES", []))
    except ImportError as error:
        raise TofuError(
            f"--module {module} cannot be imported: {error}. Pass the name of a module on Python's path, without .py. `python -m tofu` "
            "also finds modules in the working directory."
        ) from error


def _find_cases(names: Collection[str], cases: Sequence[Case]) -> list[Case]:
    operators = [_list_operators(case) for case in cases]
    unknown = sorted(set(names).difference(*operators))
    if unknown:
        advice = suggest_several(unknown[0], DESCRIPTIONS)
        raise TofuError(
            f"There is no built-in case of {', '.join(unknown)}{advice} Pass --shape and --attribute, or a --module with CASES."
        )
    return [case for case, occurring in zip(cases, operators, strict=True) if not occurring.isdisjoint(names)]


def _list_operators(case: Case) -> set[str]:
    attributes = {name: str(value) for name, value in case.attributes.items()}
    return list_operators(case.op, attributes, len(case.inputs), case.wrt)


def _print_results(console: Console, results: Sequence[CaseResult], entries: Mapping[str, RecordEntry]) -> None:
    console.print(results_table(results))
    failures = [result.trials.failure for result in results if result.trials.failure is not None]
    for result in results:
        for problem in (*result.report.problems, *result.report.refusals):
            console.print(f"\n[bold red]{result.case}[/]\n- {problem}", highlight=False, markup=True)
    for failure in failures:
        console.print(f"\n[bold red]{failure.case}[/]")
        console.print(repr(failure), markup=False, soft_wrap=True)
    missing_cuts = [f"{missing.op}: {missing.cut}" for result in results for missing in result.missing]
    print_list(console, "Strategies that the analysis missed:", missing_cuts)
    print_list(console, "Exact cuts that are not strategies:", list_explained_cuts(results))
    uncompared = [
        f"{name}: {entry.reason or 'no output is needed'}" for name, entry in entries.items() if not entry.is_verified
    ]
    print_list(console, "Not compared with anything:", uncompared)
    case_count = sum(bool(result.problems) for result in results)
    verified_count = sum(1 + result.trials.verified for result in results)
    refused_count = sum(result.trials.refused for result in results)
    console.print(
        f"\n{len(results)} cases at {verified_count} signatures, {refused_count} more refused: "
        + (f"{case_count} cases have problems." if case_count else "all agree with MXNet.")
    )
    console.print(kinds_line(count_kinds(entries.values())), soft_wrap=True)


def _summarize_as_json(results: Sequence[CaseResult], entries: Mapping[str, RecordEntry]) -> dict[str, Any]:
    return {
        "cases": len(results),
        "compared": count_kinds(entries.values()),
        "signatures": sum(1 + result.trials.verified for result in results),
        "refused": sum(result.trials.refused for result in results),
        "problems": {str(result.case): list(result.problems) for result in results if result.problems},
        "reproducers": [repr(result.trials.failure) for result in results if result.trials.failure is not None],
        "explained": list_explained_cuts(results),
    }


def _verify_signature(names: Sequence[str], shapes: Sequence[str], attributes: Sequence[str], parts: str) -> None:
    if len(names) != 1:
        raise TofuError("--shape is for one operator: python -m tofu verify OPERATOR --shape D0,D1,...")
    values = dict(read_attribute(text) for text in attributes)
    first_shapes = [read_extents(text, f"--shape {text!r} is not D0,D1,..., for example 4,6,9,9.") for text in shapes]
    counts = read_extents(parts, f"--parts {parts!r} is not a list of numbers, for example 2,3,4.")
    report = verify_operator(names[0], values, complete_shapes(names[0], values, first_shapes), counts)
    click.echo(repr(report))
    if not report.is_verified:
        findings = [f"  - {text}" for text in (*report.problems, *report.refusals)]
        raise TofuError("\n".join([f"{names[0]} is not verified:", *findings]))


def complete_shapes(
    operator: str, attributes: Mapping[str, str], first_shapes: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return the shapes of all inputs of an operator, given the shapes of the first inputs.

    The result ends with the shapes of auxiliary states, such as moving means.
    """
    try:
        symbol = compose(operator, attributes, len(first_shapes))
        with redirect_stdout(StringIO()):  # MXNet prints its arguments
            inferred = symbol.infer_shape(**{f"input{i}": shape for i, shape in enumerate(first_shapes)})
    except mx.base.MXNetError as error:
        shapes = ", ".join(map(str, first_shapes))
        raise TofuError(
            f"{operator} does not take the shapes {shapes} with these attributes. Change --shape or --attribute. "
            f"MXNet says: {describe_refusal(error)}"
        ) from error
    if inferred[0] is None:
        raise TofuError(f"{operator} needs more shapes than {len(first_shapes)}: {', '.join(symbol.list_arguments())}.")
    return [tuple(shape) for shape in (*inferred[0], *inferred[2])]
