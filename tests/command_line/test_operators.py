import json
import re
import sys
from pathlib import Path

import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tests.command_line.calls import assert_refused, run
from tofu.command_line import operators as operator_commands
from tofu.mxnet.verify import Case
from tofu.mxnet.verify.record import RecordEntry, digest_of

ROOT = Path(__file__).parents[2]


def test_ops_lists_every_operator():
    lines = run("ops").output.splitlines()
    rows, totals = lines[1 : lines.index("")], lines[lines.index("") + 1 :]
    assert [row.split()[0] for row in rows] == sorted({*DESCRIPTIONS, "Custom", "fill_element_0index"}, key=str.lower)
    assert all(re.search(r" tdl_ops/mxnet/\w+\.py:\d+$|not described: ", row) for row in rows)
    assert totals[0].startswith(f"{len(rows)} operators listed. A description has 2 lines (the median), the longest, ")
    assert "      size_array: one number, known from the shape" in totals
    assert any(line.startswith("mxnet_0_11 (a reconstruction: ") and " of 139 described" in line for line in totals)
    assert totals[-1].startswith("The paper, MXNet 0.11: 134 of 139 described")


def test_ops_filters_by_patterns_and_suggests_names():
    found = {line.split()[0] for line in run("ops", "Conv*").output.split("\n\n")[0].splitlines()[1:]}
    assert found == {"Convolution", "Convolution_v1"}


def test_ops_as_json_has_the_totals():
    found = json.loads(run("ops", "--json").output)
    for name, total in (("mxnet_0_11", 139), ("mxnet_1_9_1_user_facing", 174)):
        assert found[name]["total"] == total
        assert found[name]["verified"] <= found[name]["described"] <= total
    assert found["operators"]["Custom"] is None
    assert found["description_lines"]["median"] <= 3


@pytest.mark.slow
def test_verify_records_all_descriptions_with_cases(monkeypatch):
    written = {}
    described = {name: DESCRIPTIONS[name] for name in ("tanh", "_backward_tanh", "_tofu_join")}
    monkeypatch.setattr(operator_commands, "load_cases", lambda: (Case("tanh", {}, [(5, 7)]),))
    monkeypatch.setattr(operator_commands, "DESCRIPTIONS", described)
    monkeypatch.setattr(operator_commands, "write_record", written.update)
    result = run("verify", "--record", "--all", "--examples", "2", "--no-missing")
    assert result.exit_code == 0, result.output
    assert set(written) == {"tanh", "_backward_tanh"}
    assert written["tanh"] == RecordEntry(
        digest_of("tanh"), "", ("i0", "i1"), (), True, False, "numbers", {"numbers": 35}, (), "", 3
    )
    kinds = "Compared with MXNet's kernels: 2 operators by numbers, 0 by a relation, 0 by their parts alone; 0 leave"
    assert kinds in result.output.replace("\n", " ")
    assert re.search(r"[\d.]+ seconds; the largest process had [\d.]+ GiB", result.output)


@pytest.mark.slow
def test_verify_of_a_gradient_runs_its_operator():
    result = run("verify", "_backward_softmin", "--examples", "0", "--no-missing", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["cases"] == 3


def test_verify_loads_user_descriptions(descriptions, tmp_path, monkeypatch):
    (tmp_path / "my_descriptions.py").write_text(USER_DESCRIPTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_descriptions", raising=False)
    result = run("verify", "erfinv", "--module", "my_descriptions", "--examples", "3")
    assert result.exit_code == 1
    assert "erfinv: output 0 of the description is off by" in result.output


USER_DESCRIPTIONS = """
import tofu

@tofu.op("erfinv", override=True)
def erfinv(data):
    return lambda *i: data[i]
"""


def test_unknown_operators_are_refused_before_mxnet_runs(capfd):
    assert_refused(run("verify", "Convolutoin"), "no built-in case of Convolutoin", "did you mean Convolution")
    assert capfd.readouterr().err == ""
