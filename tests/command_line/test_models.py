"""The command line: what it prints, what it writes, and how it refuses."""

import json
import re
import subprocess
import sys
from pathlib import Path

import mxnet as mx
import pytest

import tofu
from tests.command_line.calls import refuses, run
from tests.models.plain import plain_cnn
from tofu.command_line.arguments import read_hints, read_optimizer, read_shapes
from tofu.command_line.planning_options import spell_as_options
from tofu.plan import format_bytes
from tofu.report.alternatives import find_alternatives


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model-symbol.json"
    plain_cnn().symbol.save(str(path))
    return str(path)


def test_plan_prints_layers_bytes_and_memory(model):
    result = run("plan", model, "--shape", "data:64,5,13,13", "--workers", "6")
    assert result.exit_code == 0, result.output
    for part in ("6 workers (3 x 2)", "per training step", "conv1_weight 16 x 3 x 3 x 3", "worker 5", "of one device"):
        assert part in result.output


@pytest.mark.parametrize(
    ("name", "command"),
    [("plan", ["plan", "--why", "fc"]), ("memory", ["memory"]), ("frontier", ["frontier"])],
)
def test_tables_are_as_they_were_written_down(model, check_golden, name, command):
    result = run(command[0], model, *command[1:], "--shape", "data:64,5,13,13", "--workers", "6")
    assert result.exit_code == 0, result.output
    check_golden(f"{name}.txt", re.sub(r"; [\d.]+ s.*", "", result.output))


def test_plan_explains_its_axes(model):
    result = run("plan", model, "--shape", "data:64,5,13,13", "--workers", "4", "--hint", "fc=k0", "--hint", "conv2=co")
    (line,) = (line for line in result.output.splitlines() if line.startswith("Axes, of an operator's result: "))
    assert "co: dimension 1" in line or ", co: dimension 1" in line or "co, " in line
    assert "k0: summed over" in line


def test_plan_says_why(model):
    shape = ("--shape", "data:64,5,13,13", "--workers", "4")
    result = run("plan", model, *shape, "--why", "fc", "--why", "conv2")
    assert result.exit_code == 0, result.output
    symbol = tofu.partition(plain_cnn().symbol, 4, data=(64, 5, 13, 13))
    for layer in ("fc", "conv2"):
        after = result.output.split(f"{layer}, split at every step along")[1]
        for one in find_alternatives(symbol.planned(), layer):
            (row,) = re.findall(rf"^{one.axis} +{one.meaning} +(.*)$", after.split("\n\n")[0], re.MULTILINE)
            assert row.startswith(format_bytes(one.communication_bytes) if one.communication_bytes else "-")
    refused = run("plan", model, *shape, "--why", "conv")
    refuses(refused, "no operator 'conv'; did you mean", "conv2")
    refuses(run("plan", model, *shape, "--why", "zzzz"), "no operator 'zzzz'. Its operators are ", " more.")
    assert "move per training step" not in refused.output  # it is said before anything is searched


def test_compare_has_plans_that_people_write_by_hand(model):
    result = run("compare", model, "--shape", "data:64,5,13,13", "--workers", "4")
    assert result.exit_code == 0, result.output
    for name, options in (("Tofu, everything split", {}), ("data parallelism", {"algorithm": "data-parallel"})):
        plan = tofu.partition(plain_cnn().symbol, 4, data=(64, 5, 13, 13), **options).plan
        held = format_bytes(max(plan.worker_bytes))
        assert re.search(rf"^{name} +{format_bytes(plan.communication_bytes)} +{held} ", result.output, re.MULTILINE)
    assert re.search(r"^Megatron +- +- +Megatron's plan over 4 workers needs", result.output, re.MULTILINE)


def test_plan_writes_a_page(model, tmp_path):
    path = tmp_path / "plan.html"
    shape = ("--shape", "data:64,5,13,13", "--workers", "4")
    result = run("plan", model, *shape, "--report", str(path))
    assert result.exit_code == 0, result.output
    assert f"The page is in {path}." in result.output.replace("\n", "")
    symbol = tofu.partition(plain_cnn().symbol, 4, data=(64, 5, 13, 13))
    symbol.save_report(tmp_path / "same.html", Path(model).name)
    timed = re.compile(r"<dt>found in</dt><dd>.*?</dd>")
    texts = [timed.sub("", file.read_text()) for file in (path, tmp_path / "same.html")]
    assert texts[0] == texts[1]
    refuses(run("plan", model, *shape, "--report", str(tmp_path / "no" / "plan.html")), "there is no folder")


def test_plan_writes_json_that_partition_applies(model, tmp_path):
    path = tmp_path / "plan.json"
    result = run("plan", model, "--shape", "data:64,5,13,13", "--workers", "4", "--json", str(path))
    assert result.exit_code == 0, result.output
    symbol = tofu.partition(plain_cnn().symbol, plan=path.read_text(), data=(64, 5, 13, 13))
    assert symbol.plan == tofu.Plan.from_json(path.read_text())


def test_an_input_that_was_forgotten_is_named(tmp_path):
    """Its type is unknown as well, and MXNet would say that of the operator that reads it."""
    path = tmp_path / "model-symbol.json"
    tables = [mx.sym.Embedding(mx.sym.Variable(name), input_dim=9, output_dim=8) for name in ("user", "item")]
    mx.sym.MakeLoss(mx.sym.sum(tables[0] * tables[1], axis=1)).save(str(path))
    refuses(run("plan", str(path), "--shape", "user:64"), "Give a shape for", "item: nothing is known")


def test_long_names_leave_room_for_the_plan(tmp_path):
    path = tmp_path / "model-symbol.json"
    name = "a_network_of_layers_" * 4
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=12, name=f"{name}dense")
    mx.sym.MakeLoss(net).save(str(path))
    result = run("plan", str(path), "--shape", "data:64,20", "--workers", "2")
    assert f"{name}dense_weight 12 x 20: " in result.output
    assert "…" not in result.output


def test_hints_are_honoured(model, tmp_path):
    path = tmp_path / "plan.json"
    shape = ("--shape", "data:64,5,13,13", "--workers", "4", "--json", str(path))
    result = run("plan", model, *shape, "--hint", "fc_weight=1,0", "--hint", "conv2=co")
    assert result.exit_code == 0, result.output
    plan = tofu.Plan.from_json(path.read_text())
    assert plan.tensors["fc_weight"] == (1, 0)
    assert plan.operators["conv2"] == ("co", "co")


def test_inference_moves_no_more_than_training(model, tmp_path):
    counts = []
    for number, options in enumerate(((), ("--inference",))):
        path = tmp_path / f"{number}.json"
        result = run("plan", model, "--shape", "data:64,5,13,13", "--workers", "4", "--json", str(path), *options)
        assert result.exit_code == 0, result.output
        counts.append(tofu.Plan.from_json(path.read_text()).communication_bytes)
    assert counts[1] < counts[0]


def test_long_tables_are_cut_in_the_middle(model):
    result = run("plan", model, "--shape", "data:64,5,13,13", "--workers", "2", "--rows", "4")
    assert "more" in result.output
    assert "conv0 " in result.output
    assert "fc_weight" in result.output


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--shape", "dta:64,5,13,13"), ["no such inputs", "dta", "data"]),
        (("--shape", "data=64,5"), ["NAME:D0,D1", "data:64,3,224,224"]),
        (("--shape", "data:64,5,13,13", "--workers", "1"), ["--workers is 1"]),
        (("--shape", "data:64,5,13,13", "--shape", "data:2,5,13,13"), ["--shape is given twice for data"]),
        (("--shape", "data:64,5,0,13"), ["positive whole numbers"]),
        (("--shape", "data:64,5,13,13", "--hint", "fc_weight"), ["NAME=CHOICE", "fc_weight"]),
        (("--shape", "data:64,5,13,13", "--hint", "fc_wieght=0"), ["fc_wieght", "fc_weight"]),
        (("--shape", "data:64,5,13,13", "--hint", "softmax=c"), ["softmax", "'c'"]),
    ],
)
def test_plan_refuses_with_one_message(model, options, fragments):
    refuses(run("plan", model, *options), *fragments)


@pytest.mark.parametrize(
    "text", ['{"nodes": [', '{"nodes": [], "arg_nodes": [], "heads": []}', '{"a": 1}', "[1, 2]", ""]
)
def test_plan_refuses_files_that_are_no_symbols(text, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(text)
    refuses(run("plan", str(path), "--shape", "data:1,2"), "broken.json", "symbol.save")


def test_symbols_of_a_newer_mxnet(model, tmp_path):
    path, saved = tmp_path / "newer-symbol.json", json.loads(Path(model).read_text())
    layer = next(node for node in saved["nodes"] if node["op"] == "Convolution")
    for version, said in ((10901, ""), (20000, "It was saved by MXNet 2.0.0, and this is 1.9.1. ")):
        saved["attrs"]["mxnet_version"] = ["int", version]
        layer["op"], layer["attrs"]["verbosity"] = "Convolution", "1"
        path.write_text(json.dumps(saved))
        remedy = f"{said}Load the library with the missing operator (mx.library.load), or build the model with operators and arguments"
        missing = f"(Cannot find argument 'verbosity', in operator Convolution(name=\"{layer['name']}\""
        refuses(run("plan", str(path), "--shape", "data:64,5,13,13"), missing, remedy)
        layer["op"] = "_npx_v9"
        path.write_text(json.dumps(saved))
        refuses(run("plan", str(path), "--shape", "data:64,5,13,13"), "Operator _npx_v9 is not registered", remedy)


def test_files_that_are_no_plans_are_named(model, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"format": ')
    refuses(run("plan", model, "--shape", "data:64,5,13,13", "--plan", str(path)), f"{path}: The plan cannot be read")


def test_shapes_and_hints_are_read():
    assert read_shapes(["data:64,3,224,224", "label:64"]) == {"data": (64, 3, 224, 224), "label": (64,)}
    assert read_hints(["w=0", "conv=b,co", "x=-,...,1"]) == {"w": 0, "conv": ("b", "co"), "x": (None, Ellipsis, 1)}


@pytest.mark.parametrize("command", [(), ("plan",), ("ops",), ("verify",)])
def test_help_has_examples(command):
    text = run(*command, "--help").output
    assert "tofu.partition" in text or "python -m tofu" in text


def test_commands_that_there_are_not():
    for name, said in (("doctr", " (did you mean doctor?)"), ("why", "; --why is an option of plan"), ("zzzz", "")):
        refused = run(name)
        assert refused.exit_code == 2
        assert f"No such command '{name}'{said}.\n" in refused.output


def test_python_m_tofu():
    done = subprocess.run([sys.executable, "-m", "tofu", "ops", "dot"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "batch_dot" in done.stdout


def test_memory_says_what_fits(model, tmp_path):
    shape = ("--shape", "data:64,5,13,13")
    picture = tmp_path / "memory.png"
    result = run("memory", model, *shape, "--workers", "2", "--device-memory", "1GB", "--plot", str(picture))
    assert result.exit_code == 0, result.output
    for part in (
        "sgd(momentum=0.9): 2 workers",
        "fetch buffers",
        "the peak is at",
        "it fits into 1 GB (1,000,000,000 bytes)",
        "The plot is in",
    ):
        assert part in result.output
    assert picture.exists()
    result = run("memory", model, *shape, "--workers", "2", "--device-memory", "2MB", "--optimizer", "none")
    assert result.exit_code == 0, result.output
    assert "it does not fit into 2 MB (2,000,000 bytes)" in result.output
    assert "are the fewest that fit" in result.output
    result = run("memory", model, *shape, "--workers", "1", "--device-memory", "1KiB")
    assert "No number of workers was found" in result.output
    assert "or more; up to 64 are tried)" in result.output


@pytest.mark.parametrize("command", ["memory", "frontier"])
def test_a_picture_of_no_known_kind_is_refused_first(model, tmp_path, command):
    result = run(command, model, "--shape", "data:64,5,13,13", "--workers", "2", "--plot", str(tmp_path / "a.xyz"))
    refuses(result, "a.xyz: the ending of a picture says its format", ".png", ".svg")
    assert "worker" not in result.output


def test_memory_names_the_operator_that_stays_whole(tmp_path):
    path = tmp_path / "fused-symbol.json"
    mx.gluon.rnn.LSTM(32, input_size=32)(mx.sym.var("data")).save(str(path))
    result = run("memory", str(path), "--shape", "data:5,8,32", "--workers", "2", "--device-memory", "20kB")
    assert result.exit_code == 0, result.output
    assert "with which 20 kB (20,000 bytes) each are enough (11 to 22 were tried)" in result.output
    assert "because none of its axes splits them" in result.output
    assert "unroll those (cell.unroll)" in result.output


def test_every_command_plans_what_the_options_say(model, tmp_path):
    shape = ("--shape", "data:64,5,13,13")
    path = str(tmp_path / "plan.json")
    hinted = run("plan", model, *shape, "--workers", "2", "--hint", "fc_weight=1", "--json", path)
    assert hinted.exit_code == 0, hinted.output
    moved = tofu.Plan.from_json(Path(path).read_text()).communication_bytes
    for options in (("--plan", path), ("--workers", "2", "--hint", "fc_weight=1")):
        assert (
            f"2 workers, which transfer {format_bytes(moved)} per step" in run("memory", model, *shape, *options).output
        )
    compared = run("frontier", model, *shape, "--plan", path, "--memory-limit", "1GB", "--topology", "1e9")
    assert compared.exit_code == 1, "--plan is applied as it is"
    compared = run("frontier", model, *shape, "--plan", path, "--memory-limit", "1GB")
    assert f"{format_bytes(moved)} moved per step" in compared.output.split("--plan: ")[1]
    assert re.search(r"within 1 GB \(1,000,000,000 bytes\): row \d", compared.output)
    refuses(
        run("plan", model, "--shape", "data:32,5,13,13", "--plan", path), "data is (32, 5, 13, 13) here", "leave --plan"
    )
    refuses(run("frontier", model, *shape, "--algorithm", "spartan"), "--algorithm spartan makes one plan")


def test_operators_without_a_strategy_name_the_option(tmp_path):
    path = str(tmp_path / "roll-symbol.json")
    rolled = mx.sym.np.roll(mx.sym.Variable("data").as_np_ndarray(), 2).as_nd_ndarray()
    mx.sym.FullyConnected(rolled, num_hidden=8, name="fc").save(path)
    for command in ("plan", "memory", "frontier"):
        options = (command, path, "--shape", "data:4,6", "--workers", "2")
        refuses(run(*options), "_np_roll roll", "With --undescribed replicate every worker")
    assert run("memory", path, "--shape", "data:4,6", "--workers", "2", "--undescribed", "replicate").exit_code == 0


def test_messages_name_options():
    for message, spelled in (
        ("with undescribed='replicate':", "with --undescribed replicate:"),
        ('undescribed="replicate".', "--undescribed replicate."),
        ("ngpus is 0; Use ngpus=1 for", "--workers is 0; Use --workers 1 for"),
        ("ngpus says 4, plan says 2", "--workers says 4, --plan says 2"),
        ("The plan is of another graph; leave plan= out", "The plan is of another graph; leave --plan out"),
        ("search again without plan=.", "search again without --plan."),
        ("topology=[10e9, 50e9], or", "--topology 10e9,50e9, or"),
    ):
        assert spell_as_options(message) == spelled


def test_sizes_and_optimizers_as_text(model):
    assert read_optimizer("adam,beta1=0.8,lazy_update=False") == ("adam", {"beta1": 0.8, "lazy_update": False})
    assert read_optimizer("none") == (None, {})
    shape = ("--shape", "data:64,5,13,13")
    for size in ("GB", "-1GB", "0GB", "1.2.3GB"):
        refuses(run("memory", model, *shape, "--device-memory", size), f"--device-memory {size!r} is not a size")
    refuses(run("memory", model, *shape, "--optimizer", "sgd,momentum"), "is not NAME,PARAMETER=VALUE")
    refuses(run("memory", model, *shape, "--optimizer", "sdg"), "MXNet has no optimizer 'sdg' (did you mean sgd?)")


def test_numpy_shapes_are_those_that_a_symbol_was_saved_with(tmp_path):
    """MXNet notes in the file that they were on; outputs of shape () are refused where they were not."""
    paths = {is_on: str(tmp_path / f"{is_on}-symbol.json") for is_on in (True, False)}
    for is_on, path in paths.items():
        with mx.util.np_shape(is_on):
            weight = mx.sym.Variable("weight", shape=(6, 4)).as_np_ndarray()
            mx.sym.np.mean(mx.sym.np.dot(mx.sym.Variable("data").as_np_ndarray(), weight)).save(path)
    options = ("--shape", "data:8,6", "--workers", "2")
    for command in (("plan",), ("memory",), ("simulate", "--machine", "8xH100"), ("verify-model",)):
        result = run(command[0], paths[True], *options, *command[1:])
        assert result.exit_code == 0, result.output
        refuses(run(command[0], paths[False], *options, *command[1:]), "shape ()", "mean")
    assert not mx.util.is_np_shape()
