"""What README.md and docs/ state and no other test looks at: versions, constants, commands, what stays whole."""

import importlib
import re
import shlex
import subprocess
from inspect import signature
from pathlib import Path

import click
import mxnet as mx
import pytest
import tomli

import tofu
from tests.docs.plain import CODE, plain_text
from tofu.command_line.main import main
from tofu.mxnet.compare.values import draw_values
from tofu.mxnet.gluon.trainer import ELEMENTWISE
from tofu.mxnet.runtime.symbol.devices import resolve_contexts
from tofu.mxnet.verify.operators import verify_operator
from tofu.plan import REPLICATION_LIMIT_BYTES
from tofu.search.solve import DEFAULT_SEARCH_SECONDS

ROOT = Path(__file__).parents[2]
TEXTS = {path.name: plain_text(path.read_text()) for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
README = TEXTS["README.md"]


def test_readme_states_the_versions_of_the_package():
    package = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    mxnet, numpy, last_numpy, first, last = re.search(
        r"\| MXNet ([\d.]+) from PyPI; NumPy 1\.(\d+) to 1\.(\d+); Python 3\.(\d+) to 3\.(\d+) \|", README
    ).groups()
    assert package["requires-python"] == f">=3.{first}"
    for extra, name in {"mxnet": "mxnet", "cu112": "mxnet-cu112"}.items():
        required = package["optional-dependencies"][extra]
        assert f"{name}=={mxnet}; python_version < '3.{int(last) + 1}'" in required
        assert f"numpy>=1.{numpy},<1.{int(last_numpy) + 1}; python_version < '3.{int(last) + 1}'" in required
    pins = (ROOT / "requirements.txt").read_text()
    oldest, newest = (
        re.search(rf"^jax==([\d.]+); python_version {sign} '3\.13'", pins, re.M)[1] for sign in ("<", ">=")
    )
    assert f"| JAX {oldest} to {newest}; Python 3.{first} to 3.13 |" in README
    assert package["optional-dependencies"]["jax"] == [f"jax>={oldest},<0.{int(newest.split('.')[1]) + 1}"]


def test_optimizers_that_servers_run_on_shards():
    stated = re.search(r"shards go to them by ([\w, ]+)\.", TEXTS["training.md"])[1]
    assert {*re.split(", | and ", stated), "ccSGD"} == {kind.__name__ for kind in ELEMENTWISE}


def constant(path, name):
    """The exponent of `name = size_t{1} << exponent`."""
    return int(re.search(name + r" = size_t\{1\} << (\d+);", (ROOT / path).read_text())[1])


def test_numbers_that_constants_decide():
    for name in ("README.md", "search.md"):
        stated = re.findall(r"tensors below (\d+) KiB", TEXTS[name], re.IGNORECASE)
        assert {int(number) * 1024 for number in stated} == {REPLICATION_LIMIT_BYTES}
    search = TEXTS["search.md"]
    assert float(re.search(r"`search_seconds=` \((\d+) by default\)", search)[1]) == DEFAULT_SEARCH_SECONDS
    entries = re.search(r"costs hold 2\^(\d+) entries at most .* those of a bound 2\^(\d+) \(", search)
    assert int(entries[1]) == constant("csrc/core/search/exact_problem.h", "kMaxExactEntries")
    assert int(entries[2]) == constant("csrc/core/bounds/mini_buckets.h", "kMaxMiniBucketEntries")
    gibibytes = int(re.search(r"and the whole problem (\d) GiB", search)[1])
    assert f"max_bytes = 0x1p{(gibibytes << 30).bit_length() - 1}" in (ROOT / "csrc/core/search/exact.h").read_text()
    parts = re.search(r"in (\d), (\d) and (\d) uneven parts", TEXTS["tdl.md"])
    assert signature(verify_operator).parameters["parts"].default == tuple(map(int, parts.groups()))


def test_make_has_its_targets():
    rules = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    for name, text in TEXTS.items():
        stated = set(re.findall(r"`make ([\w-]+)[^`]*`", text))
        assert stated <= targets, f"{name} names {stated - targets}, which the Makefile does not have"


def click_command(words):
    """The click command that a line calls, and the words after it."""
    if words[:2] == ["python", "-m"]:
        words = words[2:]
    if words[0] == "tofu":
        command = main
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(click.Context(command), words[1:])
            command, words = found, [name, *rest]
        return command, words[1:]
    return load_main(words[0]), words[1:]


def list_commands(command):
    """A command, and those of a group."""
    names = command.list_commands(None) if isinstance(command, click.Group) else ()
    return [command, *(one for name in names for one in list_commands(command.get_command(None, name)))]


def load_main(name):
    """What `python -m name` runs."""
    module = importlib.import_module(name)
    return module.main if hasattr(module, "main") else importlib.import_module(f"{name}.__main__").main


COMMANDS = {
    f"{name}: {code}": code.removeprefix(".venv/bin/")
    for name, text in TEXTS.items()
    for code in (found.strip("`") for found in CODE.findall(text))
    if code.removeprefix(".venv/bin/").startswith("python -m ")
}


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_commands_are_understood(line):
    """Click reads each command: its options are there and take these values. `...` stands for what is left out."""
    if line == "python -m tofu":
        return
    command, words = click_command(shlex.split(line))
    if isinstance(command, click.Command):
        words = [word for word in words if word != "..."]
        options = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options
        if "..." not in line and words:
            # As below `main`: click keeps what a command's first context calls its help.
            settings = main.context_settings | command.context_settings
            command.make_context(command.name, words, resilient_parsing="model-symbol.json" in line, **settings)


def test_options_of_the_text_are_there():
    """`--name` in the text is an option of a command, `name=` an argument of a function or an attribute of an operator."""
    benchmarks = {
        name for text in TEXTS.values() for name in re.findall(r"python -m ((?:benchmarks|tests)[.\w]+)", text)
    }
    mains = [main for main in map(load_main, sorted(benchmarks)) if isinstance(main, click.Command)]
    commands = [command for each in [main, *mains] for command in list_commands(each)]
    options = {name for command in commands for option in command.params for name in option.opts}
    for text in TEXTS.values():
        assert set(re.findall(r"`(--[\w-]+)[^`]*`", text)) <= options
    sources = "\n".join(path.read_text() for folder in ("tofu", "tdl_ops") for path in (ROOT / folder).rglob("*.py"))
    arguments = set(re.findall(r"\b([a-z_]+)(?:: |=)", sources))
    for text in TEXTS.values():
        assert set(re.findall(r"`([a-z_]+)=", text)) <= arguments


def test_numbers_are_drawn_as_stated():
    """Scales between 0.5 and 1.5, weights of variance 1 / fan-in, the rest between -0.5 and 0.5."""
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=400, name="fc"), name="norm")
    drawn = draw_values(net, {"data": (200, 100)})
    ranges = {"data": (-0.5, 0.5), "fc_bias": (-0.5, 0.5), "norm_gamma": (0.5, 1.5), "norm_moving_var": (0.5, 1.5)}
    for name, (low, high) in ranges.items():
        assert low <= drawn[name].min() < low + 0.1
        assert high - 0.1 < drawn[name].max() <= high
    assert drawn["fc_weight"].var() * 100 == pytest.approx(1, abs=0.05)


def test_instrumented_says_how_it_is_called():
    done = subprocess.run([ROOT / ".ci/instrumented", "other"], capture_output=True, text=True)
    assert done.returncode == 2
    assert ".ci/instrumented sanitize [PYTEST ARGUMENTS]" in done.stdout


def test_a_script_says_where_there_is_no_such_python():
    done = subprocess.run([ROOT / ".ci/core", "3.0"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "There is no Python 3.0 here, so nothing is tried on it.\n")


@pytest.mark.parametrize(("gpus", "kind"), [(0, "cpu"), (4, "gpu"), (8, "gpu")])
def test_workers_are_gpus_where_there_are_enough(gpus, kind, monkeypatch):
    monkeypatch.setattr(mx.context, "num_gpus", lambda: gpus)
    assert resolve_contexts(4) == tuple(mx.Context(kind, i) for i in range(4))


def test_too_few_gpus_are_said():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx.context, "num_gpus", lambda: 3)
        with pytest.raises(tofu.DeviceError, match=r"4 workers were asked for, but MXNet sees 3 GPUs\. Use ngpus=3"):
            resolve_contexts(4)


DATA = mx.sym.Variable("data")
LENGTHS = mx.sym.Variable("lengths", shape=(4,))
ENLARGED = mx.sym.UpSampling(
    mx.sym.reshape(DATA, shape=(0, 0, 2, 4)),
    mx.sym.Variable("weight"),
    scale=2,
    sample_type="bilinear",
    num_filter=4,
    num_args=2,
)
AXES = {
    "fused recurrence": (mx.rnn.FusedRNNCell(8, mode="lstm").unroll(6, DATA, layout="TNC")[0], "RNN", {("b",)}),
    "stack": (mx.sym.stack(DATA, 2 * DATA, axis=1), "stack", {("i0", "i1", "i2", "i3")}),
    "squeeze_axis": (
        mx.sym.Group(list(mx.sym.SliceChannel(DATA, num_outputs=4, axis=1, squeeze_axis=True))),
        "SliceChannel",
        {("i0", "i1", "i2")},
    ),
    "self-attention": (
        mx.sym.contrib.interleaved_matmul_selfatt_qk(
            mx.sym.FullyConnected(DATA, num_hidden=24, flatten=False), heads=2
        ),
        "_contrib_interleaved_matmul_selfatt_qk",
        {("b",)},
    ),
    "attention between two sequences": (
        mx.sym.contrib.interleaved_matmul_encdec_qk(DATA, mx.sym.Variable("keys", shape=(10, 4, 16)), heads=2),
        "_contrib_interleaved_matmul_encdec_qk",
        {("b", "i", "j")},
    ),
    "resize": (
        mx.sym.contrib.BilinearResize2D(mx.sym.reshape(DATA, shape=(0, 0, 2, 4)), height=4, width=6),
        "_contrib_BilinearResize2D",
        {("b0", "b1", "i")},
    ),
    "bilinear upsampling": (ENLARGED, "Deconvolution", {("b", "c", "y", "x")}),
    "gradient of bilinear upsampling": (ENLARGED, "_backward_UpSampling", {("b", "c")}),
    "spatial transformer": (
        mx.sym.SpatialTransformer(
            mx.sym.reshape(DATA, shape=(0, 0, 2, 4)),
            mx.sym.Variable("loc", shape=(6, 6)),
            target_shape=(4, 4),
            transform_type="affine",
            sampler_type="bilinear",
        ),
        "BilinearSampler",
        {("b", "c", "y")},
    ),
    "deformable convolution": (
        mx.sym.contrib.DeformableConvolution(
            mx.sym.reshape(DATA, shape=(0, 0, 2, 4)),
            mx.sym.Variable("offsets", shape=(6, 18, 2, 4)),
            mx.sym.Variable("weight"),
            kernel=(3, 3),
            pad=(1, 1),
            num_filter=4,
            no_bias=True,
        ),
        "_tofu_deformable_convolution",
        {("b", "co", "y", "x", "ci")},
    ),
    "regions": (
        mx.sym.ROIPooling(
            mx.sym.reshape(DATA, shape=(0, 0, 2, 4)),
            mx.sym.Variable("rois", shape=(5, 5)),
            pooled_size=(2, 2),
            spatial_scale=1.0,
        ),
        "ROIPooling",
        {("r", "c")},
    ),
    "reversal by lengths": (
        mx.sym.SequenceReverse(DATA, LENGTHS, use_sequence_length=True),
        "SequenceReverse",
        {("b", "i0")},
    ),
}


@pytest.mark.parametrize("case", AXES)
def test_dimensions_that_stay_whole(case):
    """docs/limits.md says which. All others are strategies: data is (6, 4, 8)."""
    symbol, op, expected = AXES[case]
    problem = tofu.partition(symbol, 2, data=(6, 4, 8)).planned().searched.problem
    operators = problem.graph.operators
    assert {problem.accesses[i].axes for i, operator in enumerate(operators) if operator.op == op} == expected
