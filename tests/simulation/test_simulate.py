"""Simulated steps: what is counted, against hand counts and the program, and what follows from more of anything."""

import json
from dataclasses import replace

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.paper import Model, rnn, wresnet
from tests.models.plain import mlp
from tofu.errors import ArgumentTypeError, PlanError, ShapeError, TofuError
from tofu.mxnet.planning import plan_task
from tofu.planning.settings import Settings
from tofu.program import NodeKind
from tofu.simulation import read_machine
from tofu.simulation.advise import DATA_PARALLEL, DEFAULT, FREE, WITHIN_MEMORY, advise, read_counts
from tofu.simulation.kernels import FETCH, UPDATE
from tofu.simulation.memory_order import order_by_memory
from tofu.simulation.simulate import emit_one_device, read_states, simulate, simulate_one_device, simulate_partition
from tofu.simulation.work import find_work

MACHINE = read_machine("8xV100")
MODELS = {
    "perceptron": lambda: Model("perceptron", mlp().symbol, mlp().shapes),
    "convolutions": lambda: wresnet(50, 1, 8, image=32, classes=16),
    "recurrence": lambda: rnn(2, 32, 8, time_steps=3, features=16, classes=16),
}


def plan(name, workers, **settings):
    return plan_task(MODELS[name]().read(Settings(workers=workers, cache=False, **settings)))


def work_of(program, states=1):
    return find_work(program, states)


def count_contracted(work):
    return sum(work.computed[number].contracted for number in work.arithmetic.tolist())


def test_parts_whose_axes_have_other_names_than_in_their_descriptions_are_divided_too():
    """Rows of an image, which the operators that InstanceNorm is lowered to call otherwise."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=8, name="conv")
    net = mx.sym.MakeLoss(mx.sym.InstanceNorm(net, name="norm").sum())
    model = Model("norm", net, {"data": (2, 4, 16, 16)})
    hints = {"norm": "s0", "norm_backward": "s0"}
    program = plan_task(model.read(Settings(workers=2, cache=False, hints=hints))).program
    work = work_of(program)
    square = program.graph.operator_index["norm/square"]
    nodes = enumerate(program.nodes)
    copies = [n for n, node in nodes if node.kind is NodeKind.OPERATOR and node.id == square]
    assert [work.computed[work.arithmetic[n]].other for n in copies] == [2 * 8 * 16 * 16 // 2] * 2


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("workers", [2, 8])
def test_the_arithmetic_of_all_workers_is_that_of_one_device(name, workers):
    """Products are divided, never repeated: every plan here splits all of them. Border cells that halos share are in no product twice."""
    partition = plan(name, workers)
    whole = count_contracted(work_of(emit_one_device(partition.task)))
    assert count_contracted(work_of(partition.program)) == whole > 0


def test_the_bytes_of_kernels_and_fetches_are_those_of_their_tensors():
    partition = plan("perceptron", 2)
    program = partition.program
    work = work_of(program, states=0)
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


def test_every_shard_of_every_weight_is_updated():
    partition = plan("perceptron", 4)
    work = work_of(partition.program, states=2)
    is_update = work.kind == work.kinds.index(UPDATE)
    graph = partition.problem.graph
    whole = sum(graph.tensors[t].size_bytes for t in graph.updated)
    small = [t for t in graph.updated if None in partition.plan.tensors[graph.tensors[t].name]]
    repeated = sum(graph.tensors[t].size_bytes for t in small)
    updated = work.size[is_update].sum() / (3 + 2 * 2)
    assert whole <= updated <= whole + 3 * repeated


@pytest.mark.parametrize("name", MODELS)
def test_nothing_ends_before_what_it_reads_and_streams_do_not_overlap(name):
    found = simulate_partition(plan(name, 8), MACHINE)
    for task, before in enumerate(found.tasks.waits_for):
        assert all(found.end[one] <= found.start[task] + 1e-12 for one in before)
    assert (found.compute_seconds <= found.seconds + 1e-9).all()
    assert (found.fetch_seconds <= found.seconds + 1e-9).all()


@pytest.mark.parametrize("change", ["arithmetic", "memory", "links"])
def test_a_faster_machine_takes_no_longer(change):
    """Of these programs; a list schedule may lose a little where the order changes."""
    program = plan("convolutions", 4).program
    slow, fast = (simulate(program, MACHINE.scale(change, factor)).seconds for factor in (0.5, 4))
    assert fast <= 1.01 * simulate(program, MACHINE).seconds <= 1.02 * slow


def test_latency_is_waited_for_by_each_fetch_of_a_chain():
    program = plan("perceptron", 2).program
    near, far = (simulate(program, MACHINE.scale("latency", factor)).seconds for factor in (1, 1000))
    assert far - near > 999 * MACHINE.links[0].seconds


@pytest.mark.parametrize("name", MODELS)
def test_memory_is_taken_again_after_its_readers_alone(name):
    """Whoever takes a buffer waits for nodes before it, which have all read what was there; some buffers are taken again."""
    program = plan(name, 4).program
    waits = order_by_memory(program)
    assert all(before < node for node, some in enumerate(waits) for before in some)
    assert any(waits)


def test_links_are_shared():
    """Fetches of several workers that cross one level at the same time slow each other down."""
    program = plan("perceptron", 8).program
    (link,) = MACHINE.links
    narrow = replace(MACHINE, links=(replace(link, shared=link.bytes_per_second / 100),))
    assert simulate(program, narrow).seconds > simulate(program, MACHINE).seconds


def test_without_fetches_computation_is_left():
    found = plan("perceptron", 8).program
    left = simulate(found, MACHINE, with_fetches=False)
    assert left.fetch_seconds.sum() == 0
    assert left.compute_seconds == pytest.approx(simulate(found, MACHINE).compute_seconds)


def test_on_few_processors_workers_take_turns():
    program = plan("convolutions", 8).program
    shared = replace(MACHINE, links=(), processors=2.0, fetches_overlap=False)
    apart = replace(shared, processors=8.0)
    assert simulate(program, shared).seconds > 3 * simulate(program, apart).seconds


def test_the_same_program_takes_the_same_time_again():
    program = plan("recurrence", 4).program
    assert simulate(program, MACHINE).seconds == simulate(program, MACHINE).seconds


def test_the_trace_has_every_kernel_and_fetch():
    found = simulate_partition(plan("perceptron", 2), MACHINE)
    events = [event for event in json.loads(found.to_trace())["traceEvents"] if event["ph"] == "X"]
    assert len(events) == (found.tasks.seconds > 0).sum()
    assert sum(event["dur"] for event in events) == pytest.approx(1e6 * (found.end - found.start).sum())
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(1e6 * found.seconds)
    assert {event["cat"] for event in events} == {"kernel", "fetch"}


def test_memory_counts_the_states_of_the_optimizer():
    partition = plan("perceptron", 4)
    none, two = (simulate_partition(partition, MACHINE, states=states) for states in (0, 2))
    assert none.worker_bytes == partition.plan.worker_bytes
    assert all(a < b for a, b in zip(none.worker_bytes, two.worker_bytes, strict=True))


def test_what_does_not_fit_says_so():
    small = replace(MACHINE, memory_bytes=MACHINE.reserved_bytes + 1000)
    found = simulate_one_device(MODELS["perceptron"]().read(Settings(workers=2)), small)
    assert not found.fits
    assert "DOES NOT FIT" in str(found)


def test_more_workers_than_devices_are_refused():
    with pytest.raises(TofuError, match="8 devices, and the plan 16 workers"):
        simulate(plan("perceptron", 16).program, MACHINE)


def test_advice_ranks_what_fits_and_says_why_the_rest_does_not():
    task = MODELS["recurrence"]().read(Settings(workers=2))
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


def test_a_model_too_small_to_gain_is_left_on_one_device():
    slow = replace(MACHINE, links=(replace(MACHINE.links[0], seconds=1.0),))
    advice = advise(MODELS["perceptron"]().read(Settings(workers=2)), slow, workers=(2,))
    assert advice.best.workers == 1
    assert "Do not partition" in str(advice)


@pytest.mark.parametrize("part", [102, 110, 130])
def test_room_is_left_for_the_states_of_the_optimizer(part):
    """There is room for what the plan that splits everything needs, and little more, in percent of it."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=256, name="first")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=256, name="second")
    task = Model("wide", mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (512, 256)}).read(Settings(workers=2))

    def find(name, machine):
        return next(one for one in advise(task, machine, workers=(2,), states=2).options if one.name == name)

    needed = max(find(DEFAULT, MACHINE).simulation.worker_bytes)
    assert find(WITHIN_MEMORY, replace(MACHINE, memory_bytes=MACHINE.reserved_bytes + needed * part // 100)).fits


def test_where_nothing_fits_there_is_no_best():
    small = replace(MACHINE, memory_bytes=MACHINE.reserved_bytes + 1000)
    advice = advise(MODELS["perceptron"]().read(Settings(workers=2)), small, workers=(2,))
    assert advice.best is None
    assert "Nothing fits" in str(advice)


def advise_on(settings, machine=MACHINE, name="perceptron", workers=(2,)):
    return advise(MODELS[name]().read(Settings(workers=2, **settings)), machine, workers=workers)


NAMED = {
    "replicas": ({"replicate": "free"}, {FREE, WITHIN_MEMORY, DATA_PARALLEL}),
    "a baseline": ({"algorithm": "spartan"}, {"spartan", DATA_PARALLEL}),
    "data parallelism": ({"algorithm": "data-parallel"}, {DATA_PARALLEL}),
    "a hint": ({"hints": {"fc0_weight": 0}}, {DEFAULT, WITHIN_MEMORY, DATA_PARALLEL}),
}


@pytest.mark.parametrize("case", NAMED)
def test_options_are_called_what_they_are(case):
    settings, names = NAMED[case]
    options = [option for option in advise_on(settings).options if option.workers == 2]
    assert {option.name for option in options} == names
    assert all(option.plan is not None for option in options)
    (beside,) = (option for option in options if option.name == DATA_PARALLEL)
    (plain,) = (option for option in advise_on({}).options if option.name == DATA_PARALLEL)
    assert beside.plan.tensors == plain.plan.tensors


def test_a_hint_that_nothing_fits_is_an_error_and_no_advice_against_partitioning():
    with pytest.raises(
        PlanError, match="fc0_weigth: the graph has no such operator or tensor; did you mean fc0_weight"
    ):
        advise_on({"hints": {"fc0_weigth": 0}})


def test_a_model_that_cannot_be_split_is_left_on_one_device():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="first")
    task = Model("narrow", net, {"data": (1, 1)}).read(Settings(workers=2))
    advice = advise(task, MACHINE, workers=(2,))
    assert [option.workers for option in advice.options if option.fits] == [1]
    assert "there is no plan for several" in advice.verdict
    assert len(str(advice).splitlines()) == len(advice.options) + len(("header", "empty", "verdict"))


def test_more_workers_than_devices_are_refused_before_any_plan_is_searched():
    reported = []
    with pytest.raises(TofuError, match="has 8 devices, and the plan 16 workers"):
        advise(MODELS["perceptron"]().read(Settings(workers=2)), MACHINE, (2, 16), report=reported.append)
    assert not reported


WRONG_NUMBERS = {
    "one number": ({"workers": 4}, "workers is 4, not a list"),
    "none": ({"workers": [0]}, "workers is 0, not a whole number from 2"),
    "less than none": ({"workers": [-2]}, "workers is -2, not a whole number from 2"),
    "a fraction": ({"workers": [2.0]}, r"workers is 2\.0, not a whole number from 2"),
    "states less than none": ({"states": -1}, "it was given -1"),
    "an optimizer's name": ({"states": "adam"}, "it was given 'adam'"),
}


@pytest.mark.parametrize("case", WRONG_NUMBERS)
def test_numbers_that_mean_nothing_are_refused(case):
    given, message = WRONG_NUMBERS[case]
    model = mlp()
    with pytest.raises(TofuError, match=message):
        tofu.advise(model.symbol, "8xV100", **given, **model.shapes)
    if "states" in given:
        with pytest.raises(TofuError, match=message):
            tofu.simulate(model.symbol, "8xV100", **given, **model.shapes)


def test_ranges_and_numbers_of_numpy_are_numbers_of_workers():
    assert read_counts(range(2, 5)) == (2, 3, 4)
    assert read_counts(np.array([4, 2, 4])) == (4, 2)
    assert read_counts([np.int64(3)]) == (3,)
    assert read_states(np.int32(2)) == 2


def test_calls_that_do_not_fit_are_told_how_to_write_them():
    model = mlp()
    with pytest.raises(ArgumentTypeError, match=r"lacks 'machine'\. Write tofu\.simulate\(symbol, \"8xH100\""):
        tofu.simulate(model.symbol, **model.shapes)
    with pytest.raises(ShapeError, match=r"workers=2 \(pass the number of devices to tofu\.partition"):
        tofu.simulate(model.symbol, "8xV100", workers=2, **model.shapes)


def test_symbols_are_simulated_as_they_are_bound():
    model = mlp()
    partitioned = tofu.partition(model.symbol, ngpus=4, **model.shapes)
    found, plan = tofu.simulate(partitioned, "8xV100"), partitioned.plan
    doubled = {name: (2 * shape[0], *shape[1:]) for name, shape in model.shapes.items()}
    assert tofu.simulate(partitioned, "8xV100", **doubled).samples == 2 * found.samples
    assert (found.workers, partitioned.plan) == (4, plan)
    assert tofu.simulate(model.symbol, "8xV100", **model.shapes).workers == 1
    assert tofu.advise(model.symbol, "8xV100", workers=[2], **model.shapes).options
    with pytest.raises(PlanError, match="pass them by name"):
        tofu.simulate(model.symbol, "8xV100")
