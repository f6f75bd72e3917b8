"""`python -m tofu plan`, `memory` and the other commands on steps in files, for more devices than exist."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jax
import pytest
from click.testing import CliRunner

import tofu.jax
from tofu.command_line.main import main
from tofu.jax.step_files import read_step_file
from tofu.plan import Plan

TEXT = """
import jax
import jax.numpy as jnp
import tofu.jax


def step(params, batch):
    x, y = batch
    loss = lambda params: jnp.mean((jax.nn.relu(x @ params["w1"]) @ params["w2"] - y) ** 2)
    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


def example_args(width=1024):
    shape = jax.ShapeDtypeStruct
    return {"w1": shape((512, width), "float32"), "w2": shape((width, 512), "float32")}, (shape((64, 512), "float32"),) * 2


small = example_args(256)
decorated = tofu.jax.partition(workers=2)(step)
one_number = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    return path


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_plan_prints_and_saves_plans_for_more_devices_than_exist(file):
    saved, page = file.with_suffix(".json"), file.with_suffix(".html")
    given = read_step_file(str(file))
    names = tofu.jax.partition(given.step, 2, given.arguments).plan.operators
    product = next(name for name in names if name.endswith("dot_general_1"))
    options = ["--hint", "params/w1=0", "--save", saved, "--report", page, "--why", product, "--timings"]
    result = run("plan", f"{file}:step", "--workers", 32, *options)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("32 workers (2 x 2 x 2 x 2 x 2)")
    assert "arguments of" in result.output
    assert "Not counted: results and temporaries; `python -m tofu memory` adds them." in result.output
    shown = "".join(result.output.split())
    assert re.search(rf"{re.escape(product)},splitineveryroundalong.*Itisat\S*train\.py:\d+\.", shown)
    assert re.search(r"strategies +\d", result.output)
    assert "<title>train.py:step: 32 workers</title>" in page.read_text()
    plan = Plan.from_json(saved.read_text())
    assert plan.workers == 32
    assert set(plan.tensors["params/w1"]) == {0}
    assert len(jax.devices()) < 32
    assert run("plan", file, "--plan", saved).output.startswith("32 workers (2 x 2 x 2 x 2 x 2)")
    refused = run("memory", file, "--workers", 8, "--plan", saved).output
    assert (
        "The plan is for 32 workers, and --workers asks for 8. Use as many as the plan has, or leave --plan out"
        in refused
    )
    found = run("jax", "plan", file, "--workers", 2)  # the command group of version 0.3
    assert found.exit_code == 0, found.output
    assert "python -m tofu plan is for JAX, too: leave out jax." in found.stderr


@pytest.mark.parametrize("name", ["", ":step", ":decorated"])
def test_steps_may_be_named_and_decorated(file, name):
    result = run("plan", f"{file}{name}", "--args", "small", "--workers", 2)
    assert result.exit_code == 0, result.output
    assert "params/w1 512 x 256" in result.output


def test_memory_predicts_what_fits(file):
    result = run("memory", file, "--workers", 8, "--donate", 0, "--device-memory", "2MB")
    assert result.exit_code == 0, result.output
    assert re.search(r"arguments +4\.2 MiB +544\.0 KiB", result.output)
    assert re.search(r"over donated arguments +4\.0 MiB +512\.0 KiB", result.output)
    assert re.search(r"one device needs [\d.]+ MiB: it does not fit into 2 MB \(2,000,000 bytes\)\.", result.output)
    assert re.search(r"each of 8 workers needs [\d.]+ [KM]iB: it fits into 2 MB", result.output)
    more = run("memory", file, "--workers", 2, "--device-memory", "1MB")
    assert re.search(r"\n\d+ workers are the fewest that fit: each needs \d+\.\d KiB\.", more.output)
    alone = run("memory", file, "--workers", 1).output
    assert (alone.startswith("memory of a step  one device"), "worker" in alone) == (True, False), alone
    assert "No number of workers was found" in run("memory", file, "--workers", 2, "--device-memory", "9kB").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{file}:stop"], "train.py has no stop (did you mean step?). Write FILE.py:STEP"),
        (["{file}:one_number"], "one_number in {file} is 3 (an int), and a step is a function."),
        (["other.py:step"], "There is no file other.py. Write FILE.py:STEP, or FILE.py alone if the step is called"),
        (["{file}", "--args", "shapes"], "Add a function shapes() that returns (state, batch)"),
        (["{file}", "--args", "one_number"], "one_number in {file} gives 3 (an int), and not the tuple of the step's"),
        (["{file}", "--hint", "params/w3=0"], "did you mean params/w2, params/w1?"),
        (["{file}", "--save", "/nowhere/at/all.json"], "--save /nowhere/at/all.json: there is no folder /nowhere/at."),
        (["broken.py"], "line 1 (import nowhere_at_all) raises ModuleNotFoundError"),
        (["ending.py"], "line 1 (raise SystemExit(3)) raises SystemExit: 3. Move code that trains or ends the process"),
        (["misfit.py"], "Tracing step with example_args in "),
    ],
)
def test_wrong_files_and_options_are_refused(file, arguments, message, monkeypatch):
    monkeypatch.chdir(file.parent)
    Path("broken.py").write_text("import nowhere_at_all\nstep = len")
    Path("ending.py").write_text("raise SystemExit(3)\nstep = len")
    Path("misfit.py").write_text(f"{TEXT}\nexample_args = (3, 4)")
    result = run("plan", *(argument.format(file=file) for argument in arguments))
    assert result.exit_code == 1
    assert message.format(file=file) in result.output
    assert "Traceback" not in result.output


def test_help_without_mxnet():
    code = "import sys; sys.modules['mxnet'] = None; sys.argv[1:] = ['--help']; from tofu.__main__ import run; run()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([\w-]+)  ", found.stdout.partition("Commands:")[2], re.MULTILINE)
    assert listed == ["advise", "compare", "diff", "doctor", "memory", "plan", "simulate", "verify-model"]
    assert "example_args()" in run("plan", "--help").output


@pytest.mark.skipif(not find_spec("mxnet"), reason="MXNet is not installed")
def test_options_of_other_models_are_refused(file):
    for arguments, message in (
        (["plan", file, "--shape", "x:3"], "--shape: for an MXNet symbol only, and"),
        (["memory", "model-symbol.json", "--donate", 0], "--donate: for a step for JAX only, and model-symbol.json is"),
        (["compare", "model-symbol.json", "--batch", 3], "--batch: for a step for JAX only, and model-symbol.json is"),
        (["frontier", file], "is a step for JAX. For a step, `python -m tofu plan --memory-limit SIZE`"),
        (["plan", "nothing.json"], "There is no file nothing.json. MODEL is a symbol that MXNet saved"),
    ):
        found = run(*arguments)
        assert (found.exit_code, message in found.output) == (1, True), found.output
