"""The page of a plan, and the alternatives on it: what they say is what the search and the cost say."""

import re
from html.parser import HTMLParser

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.normalized import resnet_v1
from tests.models.recurrent import RECURRENT_MODELS
from tofu.plan import format_bytes, format_rate, format_seconds
from tofu.report.alternatives import choose_layers, find_alternatives
from tofu.report.durations import describe_durations
from tofu.report.layers import list_layers
from tofu.report.plan_page import _Drawings, render_page, untracked
from tofu.search.geometry import find_shards
from tofu.search.topology import Arrangement
from tofu.simulation import list_machines, read_machine
from tofu.simulation.simulate import simulate_partition

MODEL = resnet_v1(12)


@pytest.fixture(scope="module")
def partition():
    return tofu.partition(MODEL.symbol, 4, **MODEL.shapes).planned()


class Page(HTMLParser):
    """The attributes of every element, by its tag; pictures by their names."""

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


def test_long_names_are_cut_at_their_beginning_where_there_is_no_room(partition):
    """The ends of names tell layers apart: they are written from the right there, each as a run of its own that is read from the left."""
    text = render_page(partition, "a model")
    narrow = text.partition("@media (max-width: 60rem)")[2].partition("</style>")[0]
    assert re.search(r"\.row \.name \{ direction: rtl;[^}]*text-overflow: ellipsis", narrow)
    names = re.findall(r'<span class="layer name" title="([^"]+)"><bdi dir="ltr"(?: class="why")?>([^<]+)</bdi>', text)
    assert [one for one, _ in names] == [one for _, one in names] == [layer.name for layer in list_layers(partition)]


def test_page_holds_every_layer_and_asks_for_nothing(partition):
    text = render_page(partition, "a <model>")
    page = Page(text)
    assert not page.open
    layers = page.elements["details"]
    assert sum(int(layer["data-bytes"]) for layer in layers) == partition.plan.communication_bytes
    assert [layer["data-names"].split()[0] for layer in layers] == [layer.name for layer in list_layers(partition)]
    assert "a &lt;model&gt;" in text
    assert "a <model>" not in text
    assert not re.search(r'(src|href)="(?!#)', text)
    pictures = {picture["id"] for picture in page.elements["symbol"]}
    assert {use["href"] for use in page.elements["use"]} == {f"#{name}" for name in pictures}


@pytest.mark.parametrize("steps", [(0, 1, 0), (1, None, 0), (None, None), (2, 1, 1), (0,)])
def test_pictures_are_of_the_shards(steps):
    """Workers share a part of a picture exactly where they hold the same box of a tensor."""
    factors = (3, 2, 2)[: len(steps)]
    symbol = tofu.partition(mx.sym.MakeLoss(mx.sym.Variable("data")), 12, data=(12, 12, 12))
    problem = symbol.planned().problem.arrange(Arrangement(factors))
    tensor = problem.graph.tensor_index["data"]
    drawings = _Drawings(factors)
    assert drawings.draw(steps) == drawings.draw(steps)
    cells = drawings.made[0]["cells"]
    assert len(drawings.made) == 1
    assert len(cells) == np.prod(factors)
    boxes = [box.tobytes() for box in find_shards(problem, tensor, [-1 if d is None else d for d in steps])]
    digits = list(np.ndindex(*factors))
    parts = [drawings._find_part(worker, steps) for worker in digits]
    for one in range(len(digits)):
        for other in range(len(digits)):
            assert (boxes[one] == boxes[other]) == (parts[one] == parts[other])


def test_alternatives_are_what_hints_give(partition):
    layers = choose_layers(list_layers(partition), 2)
    assert len(layers) == 2
    for layer in layers:
        found = find_alternatives(partition, layer.name, seconds=10)
        assert sorted(one.axis for one in found) == sorted(
            partition.problem.accesses[partition.problem.graph.operator_index[layer.name]].axes
        )
        for one in found:
            if one.communication_bytes is None:
                with pytest.raises(tofu.TofuError, match=re.escape(one.remark)):
                    tofu.partition(MODEL.symbol, 4, hints={layer.name: one.axis}, **MODEL.shapes)
                continue
            plan = tofu.partition(MODEL.symbol, 4, hints={layer.name: one.axis}, **MODEL.shapes).plan
            assert one.communication_bytes == plan.communication_bytes
            before = partition.plan.communication_bytes
            assert one.change == (plan.communication_bytes - before) / before >= 0
            assert one.remark == plan.optimality


def test_alternatives_of_a_recurrence_say_among_which_plans():
    model = RECURRENT_MODELS["rnn"]("float32")
    symbol = tofu.partition(model.symbol, 2, **model.shapes)
    found = find_alternatives(symbol.planned(), "rnn0_t0_h2h", seconds=10)
    plans = [tofu.partition(model.symbol, 2, hints={"rnn0_t0_h2h": one.axis}, **model.shapes).plan for one in found]
    assert [one.remark for one in found] == [plan.optimality for plan in plans]
    assert "time steps" in symbol.plan.optimality
    assert "data parallelism" not in render_page(symbol.planned(), "recurrent")


def test_alternatives_of_what_is_not_there(partition):
    with pytest.raises(tofu.TofuError, match="no operator 'conv00'; did you mean"):
        find_alternatives(partition, "conv00")


def test_page_says_how_long_a_step_takes_on_each_machine_that_is_large_enough(partition):
    text = render_page(partition, "a model")
    part = text.partition("<h2>Time</h2>")[2].partition("<h2>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*?)</tr>", part, re.DOTALL)]
    found = {row[0]: row for row in rows}
    assert list(found) == [one["machine"] for one in describe_durations(partition, untracked)]
    for name in list_machines():
        expected = simulate_partition(partition, read_machine(name))
        row = found[expected.machine.name]
        assert row[1:3] == [format_seconds(expected.seconds), format_rate(expected.throughput)]
        assert row[-1].startswith(format_bytes(max(expected.worker_bytes)))
    assert len({row[1] for row in rows}) > 1
    assert "<th>memory, with a momentum</th>" in part


def test_machines_with_fewer_devices_than_workers_are_left_out():
    planned = tofu.partition(MODEL.symbol, 12, **MODEL.shapes).planned()
    assert [one["machine"] for one in describe_durations(planned, untracked)] == ["2 hosts of 8 x H100"]


def test_what_takes_time_is_tracked_with_its_name(partition):
    tracked = []

    def track(items, what):
        tracked.append(what)
        return items

    render_page(partition, "a model", track)
    assert tracked == ["searching alternatives", "simulating machines"]
