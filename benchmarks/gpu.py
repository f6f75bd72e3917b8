"""All checks and measurements on a GPU, in one command of ten minutes that needs only the driver and NVRTC.

    python -m benchmarks.gpu --out FOLDER                 on a GPU; `.ci/gpu` builds what it needs and calls it
    python -m benchmarks.gpu --out FOLDER --few           a fifth of the numeric checks, four minutes
    python -m benchmarks.gpu --out FOLDER --emulate       on the CPU, thread by thread, the same cases, without times

The numbers of every GPU kernel of Tofu are compared with the same source on the CPU and with a loop over elements. If
compute-sanitizer is installed, it checks the kernels. Bandwidths are relative to a copy within the device, and to CuPy
if it is installed. If JAX sees the GPU, training steps of `tofu.jax` are compared with `jax.jit`, in numbers and time.
Figures are printed with their goals, and written to `gpu.json`. Steps that cannot run are reported. The exit status is
1 after a failure.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cuda import native

SPEEDUP_GOAL = 2.0  # of fetches over CuPy
MIB = 256  # of each array: larger than the L2 cache
SANITIZERS = ("memcheck", "racecheck")
LIMIT_SECONDS = 300  # of each step
PLACES_OF_TOOLS = "/usr/local/cuda/bin"


@dataclass
class GpuRun:
    """Results so far: figures by name, reasons for steps left out, and failures."""

    out: Path
    emulated: bool
    few: bool
    figures: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def execute(self, name: str, command: Sequence[str], **environment: str) -> str:
        started = time.perf_counter()
        print(f"== {name}", flush=True)
        try:
            done = subprocess.run(
                [*command],
                env={**os.environ, **environment},
                cwd=native.ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_SECONDS,
            )
            output, failed = done.stdout, done.returncode != 0
        except subprocess.TimeoutExpired as expired:
            output, failed = str(expired.stdout or "") + f"\nnot done after {LIMIT_SECONDS} seconds", True
        (self.out / f"{name.replace(' ', '_')}.log").write_text(output)
        if failed:
            self.failures.append(f"{name}: {(output.strip().splitlines() or ['no output'])[-1]}")
        print(f"   {time.perf_counter() - started:.0f} s{', FAILED' if failed else ''}", flush=True)
        return output


def read_lines(output: str) -> Iterator[Mapping[str, Any]]:
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def check_kernels(run: GpuRun, program: str) -> None:
    output = run.execute("numbers", [program, "check", *(["--few"] if run.few else [])])
    for line in read_lines(output):
        run.figures[line["what"]] = {key: value for key, value in line.items() if key != "what"}


def sanitize(run: GpuRun, program: str) -> None:
    tool = shutil.which("compute-sanitizer", path=os.environ["PATH"] + os.pathsep + PLACES_OF_TOOLS)
    if tool is None or run.emulated:
        run.left_out["compute-sanitizer"] = "it is not installed" if tool is None else "there is no GPU"
        return
    for which in SANITIZERS:
        output = run.execute(which, [tool, "--tool", which, "--error-exitcode", "9", program, "check", "--few"])
        run.figures[which] = next((line for line in output.splitlines()[::-1] if "SUMMARY" in line), "no summary")


def measure_parts(run: GpuRun, program: str) -> None:
    output = run.execute("bandwidths", [program, "measure", "1" if run.emulated else str(MIB)])
    lines = list(read_lines(output))
    run.figures["copy"] = next((line for line in lines if line["what"] == "copy"), None)
    run.figures["parts"] = [line for line in lines if line["what"] == "part"]
    run.figures["fetches"] = [line for line in lines if line["what"] == "fetch"]


def compare_fetches(run: GpuRun) -> None:
    if importlib.util.find_spec("cupy") is None or run.emulated:
        run.left_out["slices and concatenations"] = "CuPy is not installed" if not run.emulated else "there is no GPU"
        return
    path = run.out / "fetches.json"
    run.execute("fetches", [sys.executable, "-m", "benchmarks.multi_fetch", "--json", str(path)])
    if path.exists():
        run.figures["fetches beside CuPy"] = json.loads(path.read_text())


def train_a_step(run: GpuRun) -> None:
    if importlib.util.find_spec("jax") is None:
        run.left_out["a step of tofu.jax"] = "JAX is not installed"
        return
    path = run.out / "steps.json"
    settings = ["--small", "--rounds", "2"] if run.emulated else []
    environment = {"JAX_PLATFORMS": "cpu"} if run.emulated else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-m", "benchmarks.jax_step_time", "--json", str(path), *settings]
    run.execute("steps of tofu.jax", command, **environment)
    if path.exists():
        run.figures["steps of tofu.jax"] = json.loads(path.read_text())


def run_kernels_of_users(run: GpuRun) -> None:
    """Run steps of tofu.jax with kernels and memory that only exist on a GPU."""
    if importlib.util.find_spec("jax") is None or run.emulated:
        run.left_out["kernels of users"] = "there is no GPU" if run.emulated else "JAX is not installed"
        return
    path = run.out / "kernels_of_users.json"
    run.execute(
        "kernels of users",
        [sys.executable, "-m", "benchmarks.jax_gpu_kernels", "--json", str(path)],
        XLA_PYTHON_CLIENT_PREALLOCATE="false",
    )
    if path.exists():
        run.figures["kernels of users"] = json.loads(path.read_text())


def print_figures(run: GpuRun) -> None:
    device, checks = run.figures.get("device", {}), run.figures.get("checks", {})
    print(f"\n{device.get('name')}, compute capability {device.get('capability')}, NVRTC {device.get('nvrtc')}")
    print(
        f"numbers: {checks.get('parts')} of parts, {checks.get('fetches')} of fetches; wrong: {checks.get('failed')} (goal 0)"
    )
    for which in SANITIZERS:
        if which in run.figures:
            print(f"{which}: {run.figures[which]}")
    if not run.emulated:
        _print_bandwidths(run)
    steps = run.figures.get("steps of tofu.jax", {}).get("steps", ())
    for step in steps:
        print(f"tofu.jax, {step['model']}: {step['overhead']:.3f} of jax.jit's time (goal 1.05)")
    for row in run.figures.get("kernels of users", {}).get("rows", ()):
        print(f"tofu.jax, {row['step']}: {row.get('failure') or _describe(row)}")
    for what, why in run.left_out.items():
        print(f"left out: {what}, because {why}")
    for failure in run.failures:
        print(f"FAILED: {failure}")


def _describe(row: Mapping[str, Any]) -> str:
    scratch = ", ".join(
        f"{row[f'{kind} scratch'] / 2**20:.0f} MiB of scratch memory and {row[f'{kind} scratch on the host'] / 2**20:.0f} on the host"
        for kind in ("partitioned", "plain")
    )
    return f"off by {row['error']:.1e} (goal {row['limit']:.0e}); {scratch} for jax.jit"


def _print_bandwidths(run: GpuRun) -> None:
    copy = run.figures.get("copy") or {"bandwidth": 0}
    print(f"a copy within the device: {copy['bandwidth'] / 1e9:.0f} GB/s read and written\n")
    print(f"{'kernel':34} {'type':8} {'shape':30} {'MiB':>5} {'us':>7} {'share':>6} {'goal':>5}")
    rows = [*run.figures.get("fetches", ()), *run.figures.get("parts", ())]
    for row in rows:
        goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
        missed = "  missed" if goal and row["share"] < row["goal"] else ""
        print(
            f"{row['kernel']:34} {row['type']:8} {row['view'][:30]:30} {row['bytes'] / 2**20:5.0f} {row['seconds'] * 1e6:7.0f} "
            f"{row['share']:6.2f} {goal:>5}{missed}"
        )
    with_goal = [row for row in rows if row["goal"] is not None]
    reached = sum(row["share"] >= row["goal"] for row in with_goal)
    print(f"\nreached: {reached} of {len(with_goal)} goals of bandwidth")
    beside = run.figures.get("fetches beside CuPy")
    if beside:
        faster = sum(row["speedup"] >= SPEEDUP_GOAL for row in beside["rows"])
        print(
            f"fetches at least {SPEEDUP_GOAL:.0f} times as fast as slices and concatenations: {faster} of {len(beside['rows'])}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output/gpu"), help="folder for logs and figures")
    parser.add_argument("--emulate", action="store_true", help="on the CPU, some cases, without times")
    parser.add_argument("--few", action="store_true", help="a fifth of the cases of numbers")
    options = parser.parse_args(arguments)
    run = GpuRun(options.out.resolve(), options.emulate, options.few or options.emulate)
    run.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TOFU_KERNEL_CACHE", str(run.out / "kernels"))
    if run.emulated:
        emulated = str(native.build_emulated_gpu())
        os.environ |= {"TOFU_CUDA_DRIVER": emulated, "TOFU_NVRTC": emulated}
    program = str(native.build_gpu_parts())
    check_kernels(run, program)
    sanitize(run, program)
    measure_parts(run, program)
    compare_fetches(run)
    train_a_step(run)
    run_kernels_of_users(run)
    shutil.rmtree(run.out / "kernels", ignore_errors=True)
    figures = {"left out": run.left_out, "failures": run.failures, **run.figures}
    (run.out / "gpu.json").write_text(json.dumps(figures, indent=1) + "\n")
    print_figures(run)
    sys.exit(bool(run.failures))


if __name__ == "__main__":
    main()
