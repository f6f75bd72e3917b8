import inspect
from dataclasses import fields

import numpy as np
import pytest

import tofu
from tofu.command_line.planning import plan
from tofu.mxnet.settings import MXNET_OPTIONS, MXNetSettings
from tofu.planning.settings import DEFAULTS, OPTIONS, Settings, read_plan


def defaults_of(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def test_partition_takes_every_option():
    taken = defaults_of(tofu.mxnet.partition)
    assert taken.pop("contexts") is None
    assert taken.pop("unroll") == MXNetSettings(2).unroll
    assert taken == {name: DEFAULTS[name] for name in OPTIONS}
    inner = {"workers", "strict_plan", "arrangement", "saved"}
    assert OPTIONS.keys() == {field.name for field in fields(Settings)} - inner


def test_the_frontier_takes_options_with_the_same_defaults():
    taken = defaults_of(tofu.frontier)
    assert taken
    assert taken == {name: DEFAULTS[name] for name in taken}


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.help])
def test_the_command_line_offers_every_option_with_a_help_text(name):
    (found,) = (parameter for parameter in plan.params if parameter.name == name)
    assert found.opts == ["--" + name.replace("_", "-")]
    assert found.help == OPTIONS[name].help
    assert found.default == DEFAULTS[name]


@pytest.mark.parametrize("name", ["replicate", "undescribed", "on_infeasible", "unroll"])
def test_an_option_that_is_a_word_refuses_other_values(name):
    with pytest.raises(tofu.TofuError, match=f"{name}= must be one of .*, not "):
        MXNET_OPTIONS[name].read(np.array([1, 2]))


def test_a_file_that_is_no_plan_is_refused_with_the_command_that_writes_one(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import jax")
    with pytest.raises(tofu.PlanError, match=r"train\.py is not a plan\. `python -m tofu plan MODEL --save FILE`"):
        read_plan(path)
