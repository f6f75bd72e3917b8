import re
from html.parser import HTMLParser

import pytest

import tofu
from tests.models.normalized import resnet_v1
from tofu.formatting import format_bytes, format_rate, format_seconds
from tofu.report import alternatives, plan_page
from tofu.report.alternatives import choose_layers, find_some_alternatives
from tofu.report.durations import describe_durations
from tofu.report.layers import list_layers
from tofu.report.plan_page import render_page
from tofu.simulation import list_machines, read_machine
from tofu.simulation.simulate import simulate_partition

MODEL = resnet_v1(12)


@pytest.fixture(scope="module")
def partition():
    return tofu.partition(MODEL.symbol, 4, **MODEL.shapes).planned()


@pytest.fixture(scope="module")
def text(partition):
    return render_page(partition, "a <model>")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.unclosed = {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.setdefault(tag, []).append(dict(attrs))
        if tag not in ("meta", "input", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.setdefault(tag, []).append(dict(attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_shows_every_layer_and_loads_nothing(partition, text):
    page = Page(text)
    assert not page.open
    layers = page.elements["details"]
    assert sum(int(layer["data-bytes"]) for layer in layers) == partition.plan.communication_bytes
    assert [layer["data-names"].split()[0] for layer in layers] == [layer.name for layer in list_layers(partition)]
    assert any(operator.is_inner for operator in partition.problem.graph.operators), "no lowered operator is counted"
    assert "a &lt;model&gt;" in text
    assert "a <model>" not in text
    assert not re.search(r'(src|href)="(?!#)', text)
    pictures = {picture["id"] for picture in page.elements["symbol"]}
    assert {use["href"] for use in page.elements["use"]} == {f"#{name}" for name in pictures}


def test_searches_of_a_page_stop_when_the_time_is_used_up(partition, text, monkeypatch):
    layers = choose_layers(list_layers(partition), 3)
    clock = iter(range(100))
    monkeypatch.setattr(alternatives.time, "process_time", lambda: next(clock))
    found, left_out = find_some_alternatives(partition, layers, seconds=3)
    accesses, positions = partition.problem.accesses, partition.problem.graph.operator_index
    most = max(layers, key=lambda layer: layer.moved_bytes)
    assert {name for name, plans in found.items() if plans} == {most.name}
    assert len(found[most.name]) == 2
    assert left_out == sum(len(accesses[positions[layer.operator]].axes) for layer in layers) - 2
    assert "were not searched" not in text
    monkeypatch.setattr(plan_page, "find_some_alternatives", lambda *_: (found, left_out))
    assert f"To save time, {left_out} of these plans were not searched." in render_page(partition, "a model")


def test_the_page_lists_simulated_machines(partition, text):
    part = text.partition("<h2>Time</h2>")[2].partition("<h2>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*?)</tr>", part, re.DOTALL)]
    found = {row[0]: row for row in rows}
    assert list(found) == [worker["machine"] for worker in describe_durations(partition)]
    for name in list_machines():
        expected = simulate_partition(partition, read_machine(name))
        row = found[expected.machine.name]
        assert row[1:3] == [format_seconds(expected.seconds), format_rate(expected.throughput)]
        assert row[-1].startswith(format_bytes(max(expected.worker_bytes)))
    assert len({row[1] for row in rows}) > 1
    assert "<th>memory, with a momentum</th>" in part
