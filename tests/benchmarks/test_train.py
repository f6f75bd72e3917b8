"""The training runs of the paper's models: what they print, and what they refuse."""

import pytest
from click.testing import CliRunner

from benchmarks import train
from tests.models.paper import build_model


def run(*options):
    return CliRunner().invoke(train.main, [*options, "--contexts", "cpu"])


def test_a_narrow_model_trains_and_moves_what_was_planned():
    found = run(*["--model", "rnn-2-8k", "--ngpus", "3", "--batch", "6", "--steps", "3", "--scale", "512"])
    assert found.exit_code == 0, found.output
    rows = dict(line.strip("│ ").split("│", 1) for line in found.output.splitlines() if line.count("│") == 3)
    rows = {name.strip(): value.strip() for name, value in rows.items()}
    assert rows["bytes per step, planned"] == rows["bytes per step, read from other workers"]
    first, last = map(float, rows["cross entropy, first and last step"].split(", "))
    assert last < first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model lenet --batch 8", "There is no model 'lenet'"),
        ("--model wresnet-18-2 --batch 8", "There is no model 'wresnet-18-2'"),
        ("--model rnn-8-8k --batch 8 --scale 3", "8192 cells cannot be divided by the scale 3"),
        ("--model rnn-8-8k --batch 8 --scale 0", "The scale is 0"),
    ],
)
def test_mistakes_are_named(options, message):
    found = run(*options.split())
    assert found.exit_code == 2
    assert message in found.output


def test_what_does_not_fit_is_refused_with_the_scale_that_does(monkeypatch):
    monkeypatch.setattr(train, "available_bytes", lambda contexts: {"the host": 2**20})
    found = run(*["--model", "rnn-1-1k", "--ngpus", "2", "--batch", "4", "--scale", "16"])
    assert found.exit_code == 2
    assert "try --scale 32." in " ".join(found.output.split())


def test_a_scale_divides_widths_alone():
    whole, narrow = build_model("wresnet-50-4", 2), build_model("WResNet-50-4", 2, 16)
    assert whole.symbol.list_arguments() == narrow.symbol.list_arguments()
    assert whole.weight_shapes()["group0_block0_2_conv_weight"] == (256, 256, 3, 3)
    assert narrow.weight_shapes()["group0_block0_2_conv_weight"] == (16, 16, 3, 3)
    assert narrow.shapes == whole.shapes
