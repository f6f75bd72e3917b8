"""The campaign of faults: a sample of each group loses nothing, and what is lost is noticed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import faults
from tests.campaigns.fault_cases import operators

ROOT = Path(__file__).parents[2]
SAMPLE = """
import dataclasses, json
from benchmarks import faults
for group, every in {"interrupts": 5, "limits": 5, "processes": 5, "misuse": 9, "operators": 6}.items():
    for outcome in faults.run_group(group, every):
        print(json.dumps(dataclasses.asdict(outcome)), flush=True)
"""


def test_a_sample_of_the_faults_loses_nothing():
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MXNET_SUBGRAPH_VERBOSE": "0"}
    command = [sys.executable, "-W", "ignore", "-c", SAMPLE]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    outcomes = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert [(o["place"], o["lost"]) for o in outcomes if o["lost"] != faults.NOTHING] == []
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert len({outcome["kind"] for outcome in outcomes}) >= 7


def test_what_is_lost_fails_the_campaign(monkeypatch, capsys):
    lost = [faults.Outcome("kind", "place", "it happened", what, 1.0) for what in (faults.NOTHING, "a weight")]
    monkeypatch.setattr(faults, "collect", lambda _: lost)
    monkeypatch.setattr(sys, "argv", ["faults", "limits"])
    with pytest.raises(SystemExit, match="FAILED"):
        faults.main()
    assert "2 faults: 2 kind\nlost in 1 of them" in capsys.readouterr().out


def test_a_fault_that_ends_its_process_is_lost_and_the_others_are_tried(monkeypatch):
    begun, count = [], len(operators.FAULTS)

    def collect_from(group, first):
        begun.append(first)
        done = faults.Outcome("kind", "place", "it happened", faults.NOTHING, 1.0)
        return ([done], "-11: a word") if first == 0 else ([done] * (count - first), "")

    monkeypatch.setattr(faults, "collect_from", collect_from)
    outcomes = faults.collect("operators")
    assert begun == [0, 2]
    assert [(o.place, o.lost) for o in outcomes if o.lost != faults.NOTHING] == [("fault 2", "the process")]
    assert len(outcomes) == count
