"""A short demo: the two runs agree, the three counts of bytes agree, and the files are there."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tofu
from benchmarks.demo import main


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    options = ["--epochs", "1", "--samples", "256", "--filters", "16", "--output", str(folder)]
    return CliRunner().invoke(main, options), folder


def test_it_succeeds_and_shows_the_plan(demo):
    result, _ = demo
    assert result.exit_code == 0, result.output
    for part in ("4 workers (2 x 2)", "stage3_conv1_weight", "worker 3", "planned, by geometry", "one device"):
        assert part in result.output


def test_the_two_loss_curves_agree(demo):
    results = json.loads((demo[1] / "results.json").read_text())
    one, many = results["losses"]["one device"], results["losses"]["4 workers"]
    assert len(one) == 256 // 64
    np.testing.assert_allclose(many, one, rtol=1e-4)
    assert one[-1] < one[0]


def test_planned_and_measured_bytes_agree(demo):
    results = json.loads((demo[1] / "results.json").read_text())
    assert results["moved_bytes"] == [results["communication_bytes"]]


def test_each_worker_needs_less_than_half_of_one_device(demo):
    results = json.loads((demo[1] / "results.json").read_text())
    assert max(results["worker_bytes"]) < results["single_device_bytes"] / 2


def test_the_plan_can_be_read_again_and_the_picture_is_a_picture(demo):
    assert tofu.Plan.from_json((demo[1] / "plan.json").read_text()).workers == 4
    assert (demo[1] / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_its_help_says_what_to_look_at():
    text = CliRunner().invoke(main, ["--help"]).output
    for part in ("tofu.partition(model, ngpus=WORKERS)", "loss curves", "--epochs", "--workers", "--output"):
        assert part in text
