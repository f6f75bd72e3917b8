import json
from dataclasses import replace
from functools import cache

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.paper import PaperModel, rnn, wresnet
from tests.models.plain import mlp
from tofu.errors import ArgumentTypeError, PlanError, TofuError
from tofu.mxnet.planning import plan_task
from tofu.planning.settings import Settings
from tofu.program import NodeKind
from tofu.simulation import read_machine
from tofu.simulation.advise import DATA_PARALLEL, advise
from tofu.simulation.kernels import FETCH
from tofu.simulation.memory_order import order_by_memory
from tofu.simulation.simulate import simulate, simulate_one_device, simulate_partition, write_one_device_program
from tofu.simulation.work import measure_work

MACHINE = read_machine("8xV100")
MODELS = {
    "perceptron": lambda: PaperModel("perceptron", mlp().symbol, mlp().shapes),
    "convolutions": lambda: wresnet(50, 1, 8, image=32, classes=16, blocks=(1, 1, 1, 1)),
    "recurrence": lambda: rnn(2, 32, 8, time_steps=3, features=16, classes=16),
}


@cache
def plan(name, workers):
    return plan_task(MODELS[name]().read(Settings(workers=workers, cache=False)))


def count_contracted(work):
    return sum(work.computed[number].contracted for number in work.arithmetic.tolist())


@pytest.mark.parametrize(("name", "workers"), [("perceptron", 2), ("convolutions", 8), ("recurrence", 8)])
def test_products_are_divided_and_never_repeated(name, workers):
    partition = plan(name, workers)
    whole = count_contracted(measure_work(write_one_device_program(partition.task), 1))
    assert count_contracted(measure_work(partition.program, 1)) == whole > 0


def test_kernels_and_fetches_count_the_bytes_of_their_tensors():
    partition = plan("perceptron", 2)
    program = partition.program
    work = measure_work(program, 0)
    for number, node in enumerate(program.nodes):
        tensors = program.graph.tensors
        item = 4
        written = sum(item * int(np.prod(shape)) for shape in node.shapes)
        if node.kind is NodeKind.VARIABLE:
            assert work.size[number] == 0
        elif node.kind is NodeKind.FETCH:
            assert work.kinds[work.kind[number]] == FETCH
            assert tensors[node.id].item_bytes == item
            read = sum(item * int(np.prod(piece.extent)) * len(piece.sources) for piece in node.pieces)
            assert work.size[number] == written + read
            added = sum(
                item * int(np.prod(piece.extent)) * (len(piece.sources) - 1) for piece in node.pieces if piece.sources
            )
            assert work.added[number] == added
        else:
            shapes = [program.nodes[entry.node].shapes[entry.output] for entry in node.inputs]
            assert work.size[number] == written + sum(item * int(np.prod(shape)) for shape in shapes)


@pytest.mark.parametrize("change", ["arithmetic", "memory", "links"])
def test_faster_machines_take_no_longer(change):
    """Allow one percent: list scheduling may take longer if its order changes."""
    program = plan("convolutions", 4).program
    slow, fast = (simulate(program, MACHINE.scale(change, factor)).seconds for factor in (0.5, 4))
    assert fast <= 1.01 * simulate(program, MACHINE).seconds <= 1.02 * slow


@pytest.mark.parametrize("name", MODELS)
def test_buffers_are_reused_after_their_readers(name):
    program = plan(name, 4).program
    waits = order_by_memory(program)
    assert all(before < node for node, some in enumerate(waits) for before in some)
    assert any(waits)


def test_on_few_processors_workers_take_turns():
    program = plan("convolutions", 8).program
    shared = replace(MACHINE, links=(), processors=2.0, fetches_overlap=False)
    apart = replace(shared, processors=8.0)
    assert simulate(program, shared).seconds > 3 * simulate(program, apart).seconds


def test_the_trace_lists_every_kernel_and_fetch():
    found = simulate_partition(plan("perceptron", 2), MACHINE)
    events = [event for event in json.loads(found.to_trace())["traceEvents"] if event["ph"] == "X"]
    assert len(events) == (found.tasks.seconds > 0).sum()
    assert sum(event["dur"] for event in events) == pytest.approx(1e6 * (found.end - found.start).sum())
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(1e6 * found.seconds)
    assert {event["cat"] for event in events} == {"kernel", "fetch"}


def test_memory_counts_optimizer_states():
    partition = plan("perceptron", 4)
    none, two = (simulate_partition(partition, MACHINE, states=states) for states in (0, 2))
    assert none.worker_bytes == partition.plan.worker_bytes
    assert all(a < b for a, b in zip(none.worker_bytes, two.worker_bytes, strict=True))


def test_plans_that_do_not_fit_are_marked():
    small = replace(MACHINE, memory_bytes=MACHINE.reserved_bytes + 1000)
    found = simulate_one_device(MODELS["perceptron"]().read(Settings(workers=2)), small)
    assert not found.fits
    assert "DOES NOT FIT" in str(found)
    advice = advise(MODELS["perceptron"]().read(Settings(workers=2)), small, workers=(2,))
    assert advice.best is None
    assert "Nothing fits" in str(advice)


def test_advice_ranks_the_fitting_options():
    task = MODELS["perceptron"]().read(Settings(workers=2))
    advice = advise(task, MACHINE, workers=(2, 3))
    fitting = [option.throughput for option in advice.options if option.fits]
    assert fitting == sorted(fitting, reverse=True)
    assert {(option.workers, option.name == DATA_PARALLEL) for option in advice.options} >= {
        (1, False),
        (2, True),
        (3, True),
    }
    assert all(option.low <= option.simulation.seconds <= option.high for option in advice.options if option.simulation)
    assert advice.best.throughput * 1.05 >= max(fitting)


def advise_on(settings, machine=MACHINE, name="perceptron", workers=(2,)):
    return advise(MODELS[name]().read(Settings(workers=2, **settings)), machine, workers=workers)


def test_a_misspelt_hint_is_refused():
    with pytest.raises(PlanError, match=r"fc0_weigth: the graph has no such .*; did you mean fc0_weight"):
        advise_on({"hints": {"fc0_weigth": 0}})


def test_an_unsplittable_model_stays_on_one_device():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="first")
    task = PaperModel("narrow", net, {"data": (1, 1)}).read(Settings(workers=2))
    advice = advise(task, MACHINE, workers=(2,))
    assert [option.workers for option in advice.options if option.fits] == [1]
    assert "there is no plan for several" in advice.verdict
    table, explained, verdict = str(advice).split("\n\n")
    assert len(table.splitlines()) == 1 + len(advice.options)
    assert verdict == advice.verdict
    for option in advice.options[1:]:
        assert f"2 workers, {option.name}, does not apply: {' '.join(str(option.refusal).split())}\n" in explained
    assert "Replicas" not in explained


def test_too_many_workers_are_refused_before_any_search():
    reported = []
    with pytest.raises(TofuError, match="has 8 devices, and the plan 16 workers"):
        advise(MODELS["perceptron"]().read(Settings(workers=2)), MACHINE, (2, 16), report=reported.append)
    assert not reported


WRONG_NUMBERS = {
    "one number": ({"workers": 4}, "workers is 4, not a list"),
    "none": ({"workers": [0]}, "workers is 0, not an integer from 2"),
    "a fraction": ({"workers": [2.0]}, r"workers is 2\.0, not an integer from 2"),
    "states less than none": ({"states": -1}, "not -1"),
    "an optimizer's name": ({"states": "adam"}, "not 'adam'"),
}


@pytest.mark.parametrize("case", WRONG_NUMBERS)
def test_wrong_numbers_are_refused(case):
    given, message = WRONG_NUMBERS[case]
    model = mlp()
    with pytest.raises(TofuError, match=message):
        tofu.advise(model.symbol, "8xV100", **given, **model.shapes)


def test_symbols_are_simulated_with_their_shapes():
    model = mlp()
    partitioned = tofu.partition(model.symbol, ngpus=4, **model.shapes)
    found, plan = tofu.simulate(partitioned, "8xV100"), partitioned.plan
    doubled = {name: (2 * shape[0], *shape[1:]) for name, shape in model.shapes.items()}
    assert tofu.simulate(partitioned, "8xV100", **doubled).samples == 2 * found.samples
    assert (found.workers, partitioned.plan) == (4, plan)
    assert str(found).startswith("4 workers on 8 x V100 (p3.16xlarge, DGX-1): ")
    assert "including updates of" in str(found)
    assert str(tofu.simulate(partitioned, "2x8xH100")).startswith(
        "4 workers on 2 hosts of 8 x H100 (1 of 2 hosts used): "
    )
    assert tofu.simulate(model.symbol, "8xV100", **model.shapes).workers == 1
    assert tofu.advise(model.symbol, "8xV100", workers=[2], **model.shapes).options
    with pytest.raises(PlanError, match="pass them by name"):
        tofu.simulate(model.symbol, "8xV100")
    with pytest.raises(ArgumentTypeError, match=r"lacks 'machine'\. Write tofu\.simulate\(symbol, \"8xH100\""):
        tofu.simulate(model.symbol, **model.shapes)
