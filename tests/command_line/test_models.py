import re
from pathlib import Path

import mxnet as mx
import pytest

import tofu
from tests.command_line.calls import assert_refused, run
from tests.models.plain import plain_cnn
from tofu.command_line.arguments import read_hints, read_optimizer, read_shapes
from tofu.command_line.planning_options import spell_as_options
from tofu.formatting import format_bytes
from tofu.report.alternatives import find_alternatives


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model-symbol.json"
    plain_cnn().symbol.save(str(path))
    return str(path)


@pytest.mark.parametrize(
    ("name", "command"), [("plan", ["plan", "--why", "fc"]), ("memory", ["memory"]), ("frontier", ["frontier"])]
)
def test_tables_match_golden_files(model, check_golden, name, command):
    result = run(command[0], model, *command[1:], "--shape", "data:64,5,13,13", "--workers", "6")
    assert result.exit_code == 0, result.output
    check_golden(f"{name}.txt", re.sub(r"; [\d.]+ s.*", "", result.output))


def test_plan_explains_alternatives(model):
    shape = ("--shape", "data:64,5,13,13", "--workers", "4")
    result = run("plan", model, *shape, "--why", "fc", "--why", "conv2")
    assert result.exit_code == 0, result.output
    symbol = tofu.partition(plain_cnn().symbol, 4, data=(64, 5, 13, 13))
    for layer in ("fc", "conv2"):
        after = result.output.split(f"{layer}, split in every round along")[1]
        for found in find_alternatives(symbol.planned(), layer):
            (row,) = re.findall(rf"^{found.axis} +{found.meaning} +(.*)$", after.split("\n\n")[0], re.MULTILINE)
            try:
                plan = tofu.partition(plain_cnn().symbol, 4, hints={layer: found.axis}, data=(64, 5, 13, 13)).plan
                assert row.startswith(format_bytes(plan.communication_bytes))
            except tofu.TofuError:
                assert row.startswith("no plan")


def test_compare_lists_plans_made_by_hand(model):
    result = run("compare", model, "--shape", "data:64,5,13,13", "--workers", "4")
    assert result.exit_code == 0, result.output
    for name, options in (("Tofu, everything split", {}), ("data parallelism", {"algorithm": "data-parallel"})):
        plan = tofu.partition(plain_cnn().symbol, 4, data=(64, 5, 13, 13), **options).plan
        held = format_bytes(max(plan.worker_bytes))
        assert re.search(rf"^{name} +{format_bytes(plan.communication_bytes)} +{held} ", result.output, re.MULTILINE)
    assert re.search(r"^Megatron +- +- +does not apply: see below *$", result.output, re.MULTILINE)
    with pytest.raises(tofu.InfeasibleError) as reason:
        tofu.partition(plain_cnn().symbol, 4, data=(64, 5, 13, 13), algorithm="megatron")
    assert f"Megatron does not apply: {reason.value}" in result.output.replace(" \n", " ")


def test_plan_writes_the_page_of_the_python_interface(model, tmp_path):
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


def test_hints_and_json_files_hold_the_plan(model, tmp_path):
    path = tmp_path / "plan.json"
    shape = ("--shape", "data:64,5,13,13", "--workers", "4", "--json", str(path))
    result = run("plan", model, *shape, "--hint", "fc_weight=1,0", "--hint", "conv2=co")
    assert result.exit_code == 0, result.output
    plan = tofu.Plan.from_json(path.read_text())
    assert plan.tensors["fc_weight"] == (1, 0)
    assert plan.operators["conv2"] == ("co", "co")
    assert tofu.partition(plain_cnn().symbol, plan=path.read_text(), data=(64, 5, 13, 13)).plan == plan
    assert re.search(r"Axes in the results: .*\bco\b[^;]*: dimension 1", " ".join(result.output.split()))
    inference = run("plan", model, *shape, "--inference")
    assert inference.exit_code == 0, inference.output
    assert tofu.Plan.from_json(path.read_text()).communication_bytes < plan.communication_bytes


@pytest.mark.parametrize(
    "text", ['{"nodes": [', '{"nodes": [], "arg_nodes": [], "heads": []}', '{"a": 1}', "[1, 2]", ""]
)
def test_files_without_a_symbol_are_refused(text, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(text)
    assert_refused(run("plan", str(path), "--shape", "data:1,2"), "broken.json", "symbol.save")


def test_options_are_parsed():
    assert read_shapes(["data:64,3,224,224", "label:64"]) == {"data": (64, 3, 224, 224), "label": (64,)}
    assert read_hints(["w=0", "conv=b,co", "x=-,...,1"]) == {"w": 0, "conv": ("b", "co"), "x": (None, Ellipsis, 1)}
    assert read_optimizer("adam,beta1=0.8,lazy_update=False") == ("adam", {"beta1": 0.8, "lazy_update": False})
    assert read_optimizer("none") == (None, {})


def test_memory_states_which_workers_fit(model, tmp_path):
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


def test_every_command_applies_plans_and_hints(model, tmp_path):
    shape = ("--shape", "data:64,5,13,13")
    path = str(tmp_path / "plan.json")
    hinted = run("plan", model, *shape, "--workers", "2", "--hint", "fc_weight=1", "--json", path)
    assert hinted.exit_code == 0, hinted.output
    moved = tofu.Plan.from_json(Path(path).read_text()).communication_bytes
    for options in (("--plan", path), ("--workers", "2", "--hint", "fc_weight=1")):
        assert (
            f"2 workers, which transfer {format_bytes(moved)} per step" in run("memory", model, *shape, *options).output
        )
    compared = run("frontier", model, *shape, "--plan", path, "--memory-limit", "1GB")
    assert f"{format_bytes(moved)} moved per step" in compared.output.split("--plan: ")[1]
    assert re.search(r"within 1 GB \(1,000,000,000 bytes\): row \d", compared.output)


def test_operators_without_a_strategy_need_undescribed(tmp_path):
    path = str(tmp_path / "cumsum-symbol.json")
    sums = mx.sym.cumsum(mx.sym.Variable("data"), axis=1, dtype="float16")
    mx.sym.FullyConnected(mx.sym.Cast(sums, dtype="float32"), num_hidden=8, name="fc").save(path)
    for command in ("plan", "memory", "frontier"):
        options = (command, path, "--shape", "data:4,6", "--workers", "2")
        assert_refused(run(*options), "_np_cumsum cumsum", "With --undescribed replicate every worker")
    assert run("memory", path, "--shape", "data:4,6", "--workers", "2", "--undescribed", "replicate").exit_code == 0


def test_messages_use_the_spelling_of_options():
    for message, expected in (
        ("with undescribed='replicate':", "with --undescribed replicate:"),
        ('undescribed="replicate".', "--undescribed replicate."),
        ("ngpus is 0; Use ngpus=1 for", "--workers is 0; Use --workers 1 for"),
        ("ngpus says 4, plan says 2", "--workers says 4, --plan says 2"),
        ("The plan is of another graph; leave plan= out", "The plan is of another graph; leave --plan out"),
        ("search again without plan=.", "search again without --plan."),
        ("topology=[10e9, 50e9], or", "--topology 10e9,50e9, or"),
    ):
        assert spell_as_options(message) == expected
