import re

import mxnet as mx
import pytest

import tofu
from tests.models.plain import plain_cnn
from tofu.mxnet.planning import read_trained
from tofu.mxnet.runtime.symbol.arguments import read_settings
from tofu.pipeline import Observer, make_partition
from tofu.report.console import print_to_text
from tofu.report.layers import explain_axes, list_layers
from tofu.report.plan_table import choose_rows, print_partition


def make(symbol, workers, shapes, **options):
    return make_partition(read_trained(symbol, shapes, read_settings(workers, **options)), Observer())


@pytest.fixture(scope="module")
def partition():
    model = plain_cnn()
    return make(model.symbol, 4, model.shapes, hints={"conv2": "co", "fc": "k0"})


@pytest.mark.parametrize("rows", [1, 3, None])
def test_the_legend_explains_the_axes_in_the_table_and_no_others(partition, rows):
    text = print_to_text(lambda console: print_partition(console, partition, rows))
    head, tail = choose_rows(list_layers(partition), rows)
    shown = {axis for layer in (*head, *tail) for axis in (*layer.forward, *(layer.backward or ())) if axis}
    (explained,) = re.findall(r"Axes in the results: (.*?)\.\n", text.replace("\n ", " "), re.DOTALL)
    listed = [axis for part in explained.split(";") for axis in part.partition(":")[0].split(",")]
    assert {axis.strip() for axis in listed} == shown
    assert ("c" in shown) == (rows is None)


def test_axes_of_layers_are_those_of_their_operators(partition):
    layers = {layer.name: layer for layer in list_layers(partition)}
    assert explain_axes(partition, [layers["conv2"]]).startswith("ci, co: dimension 1")
    assert explain_axes(partition, [layers["fc"]]).startswith("k0: summed over")
    assert explain_axes(partition, []) == ""


@pytest.mark.parametrize(("trains", "column"), [(True, "forward"), (False, "split")])
def test_a_model_without_backward_operators_has_no_column_for_them(trains, column):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    made = make(net, 2, {"data": (4, 6)}, for_training=trains)
    text = print_to_text(lambda console: print_partition(console, made, None))
    assert bool(re.search(r"^layer .* backward ", text, re.MULTILINE)) == trains
    assert re.search(rf"^ +{column} *$", text, re.MULTILINE)
    assert "fc_weight 8 x 6" in text
    assert "(and 1 more)" in text


@pytest.mark.parametrize("most", [1, 2, 5, 9, 10, 11, None])
def test_rows_are_the_most_important_layers(partition, most):
    layers = list_layers(partition)
    head, tail = choose_rows(layers, most)
    shown = [*head, *tail]
    assert [layer for layer in layers if layer in shown] == shown
    assert len(shown) <= (most or len(layers))
    if 7 <= len(shown) < len(layers):
        assert all(layer in shown for layer in layers if layer.parameters)


def test_a_plan_says_what_it_does_not_count(partition):
    text = print_to_text(lambda console: print_partition(console, partition, None))
    assert text.endswith("Not counted: optimizer states and workspace; `python -m tofu memory` adds them.\n")
    assert "; memory per worker " in str(tofu.partition(plain_cnn().symbol, 4, **plain_cnn().shapes).plan)


def test_a_partitioned_model_has_the_table_of_the_command(partition):
    model = plain_cnn()
    symbol = tofu.partition(model.symbol, 4, hints={"conv2": "co", "fc": "k0"}, **model.shapes)
    same = print_to_text(lambda console: print_partition(console, symbol.planned(), 3))
    assert symbol.plan_table(3) == same
    assert "... " in same
    assert len(symbol.plan_table().splitlines()) > len(same.splitlines())
