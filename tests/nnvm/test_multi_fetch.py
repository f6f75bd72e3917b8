import os
import subprocess
import sys
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared.json_graph import JsonGraph, bind, invoke, pieces_text
from tofu import _mxnet

TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}
DEVICES = 3
REDUCERS = (np.add, np.maximum, np.minimum, np.multiply)  # by number
ADDED = {
    "float16": 2e-3,
    "float32": 1e-6,
    "float64": 1e-15,
    "int32": 0,
}  # types of gradients, and tolerances of their sums


@st.composite
def boxes(draw, shape):
    """Draw disjoint boxes of a region, (begin, extent) each."""
    todo, found = [((0,) * len(shape), tuple(shape))], []
    while todo:
        begin, extent = todo.pop()
        splittable = [d for d, n in enumerate(extent) if n > 1]
        if not splittable or len(todo) + len(found) > 6 or draw(st.booleans()):
            found.append((begin, extent))
            continue
        d = draw(st.sampled_from(splittable))
        at = draw(st.integers(1, extent[d] - 1))
        low, high = list(extent), list(extent)
        low[d], high[d] = at, extent[d] - at
        shifted = list(begin)
        shifted[d] += at
        todo += [(begin, tuple(low)), (tuple(shifted), tuple(high))]
    return found


@st.composite
def geometries(draw):
    ndim = draw(st.integers(1, 4))
    extents = st.lists(st.integers(1, 6), min_size=ndim, max_size=ndim)
    shape = draw(extents)
    inputs = draw(st.lists(extents, min_size=1, max_size=4))
    pieces = []
    for begin, extent in draw(boxes(shape)):
        sources = []
        for source, available in enumerate(inputs):
            if all(n <= m for n, m in zip(extent, available, strict=True)) and draw(st.booleans()):
                at = [draw(st.integers(0, m - n)) for n, m in zip(extent, available, strict=True)]
                sources.append((source, tuple(at)))
        if sources:  # else the fill value stays
            pieces.append((begin, extent, sources))
    return tuple(shape), [tuple(s) for s in inputs], pieces


def random_array(rng, shape, dtype):
    if dtype == "bool":
        return rng.rand(*shape) < 0.3
    if dtype.startswith("float"):
        return rng.uniform(-1, 1, shape).astype(dtype)
    return rng.randint(0, 30, shape).astype(dtype)


def slices(begin, extent):
    return tuple(slice(b, b + n) for b, n in zip(begin, extent, strict=True))


def expected_region(shape, inputs, pieces, fill, dtype, together=np.add):
    region = np.full(shape, fill).astype(dtype)
    for begin, extent, sources in pieces:
        sums = "float32" if dtype == "float16" else dtype
        parts = [inputs[source][slices(at, extent)].astype(sums) for source, at in sources]
        total = parts[0]
        for part in parts[1:]:
            total = together(total, part)
        region[slices(begin, extent)] = total.astype(dtype)
    return region


def source_bytes(pieces, dtype, is_remote):
    read = [int(np.prod(extent)) for _, extent, sources in pieces for source, _ in sources if is_remote(source)]
    return np.dtype(dtype).itemsize * sum(read)


def run_fetch(shape, inputs, pieces, fill, dtype, added_to=None, **attributes):
    """Run a fetch with input i on device i % DEVICES and the region on device 0. `added_to` is added in place."""
    graph = JsonGraph()
    arguments = [
        graph.add("null", f"x{i}", group=f"d{i % DEVICES}", __shape__=x.shape, __dtype__=TYPES[dtype])
        for i, x in enumerate(inputs)
    ]
    fill = repr(float(fill))
    if added_to is None:
        head = graph.fetch("region", arguments, shape, pieces, "d0", fill=fill, dtype=TYPES[dtype], **attributes)
    else:
        y = graph.add("null", "y", group="d0", __shape__=shape, __dtype__=TYPES[dtype])
        base = graph.add("_copy", "base", [y], "d0")
        region = graph.fetch("region", arguments, shape, pieces, "d0", fill=fill, dtype=TYPES[dtype])
        head = graph.add("_copy", "copy", [graph.add("_grad_add", "sum", [base, region], "d0")], "d0")
    executor = bind(graph.symbol(head), {f"d{i}": mx.cpu(i) for i in range(DEVICES)})
    for i, x in enumerate(inputs):
        executor.arg_dict[f"x{i}"][:] = x
    if added_to is not None:
        executor.arg_dict["y"][:] = added_to
    _mxnet.reset_counters()
    result = executor.forward()[0]
    assert result.context == mx.cpu(0)
    assert result.dtype == np.dtype(dtype)
    return result.asnumpy()


REDUCTIONS = [(dtype, np.add) for dtype in TYPES]
REDUCTIONS += [
    (dtype, reducer) for dtype in ("float16", "float32", "float64", "uint8", "int64") for reducer in REDUCERS[1:]
]


@pytest.mark.parametrize(("dtype", "reducer"), REDUCTIONS)
@given(geometry=geometries(), seed=st.integers(0, 1000), fill=st.sampled_from([0, 1, 3]))
@settings(max_examples=15, deadline=None)
def test_equals_numpy(dtype, reducer, geometry, seed, fill):
    shape, input_shapes, pieces = geometry
    rng = np.random.RandomState(seed)
    inputs = [random_array(rng, s, dtype) for s in input_shapes]
    for array in inputs if reducer is not np.add and dtype == "float64" else ():
        array[array > 0.9] = np.nan
    result = run_fetch(shape, inputs, pieces, fill, dtype, reducer=REDUCERS.index(reducer))
    np.testing.assert_array_equal(result, expected_region(shape, inputs, pieces, fill, dtype, reducer))
    assert _mxnet.counters() == {
        "bytes_read_remote": source_bytes(pieces, dtype, lambda source: source % DEVICES != 0),
        "bytes_read_local": source_bytes(pieces, dtype, lambda source: source % DEVICES == 0),
        "launches": 1,
    }
    if reducer is np.add and dtype in ADDED:
        base = random_array(rng, shape, dtype)
        found = run_fetch(shape, inputs, pieces, fill, dtype, added_to=base)
        np.testing.assert_allclose(found, base + result, rtol=ADDED[dtype], atol=ADDED[dtype])


def fetch_all(inputs, dtype, **attributes):
    count = len(inputs[0])
    piece = ((0,), (count,), [(source, (0,)) for source in range(len(inputs))])
    return run_fetch((count,), [np.array(x, dtype) for x in inputs], [piece], 0, dtype, **attributes)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_maximum_and_minimum_keep_nan(dtype):
    none, inf = np.nan, np.inf
    inputs = [[none, 1, 1, none, inf, 3] * 7, [1, none, 1, none, none, 2] * 7, [1, 1, none, 0, 1, -inf] * 7]
    for reducer, last in ((np.maximum, 3), (np.minimum, -inf)):
        found = fetch_all(inputs, dtype, reducer=REDUCERS.index(reducer))
        np.testing.assert_array_equal(found, [none, none, none, none, none, last] * 7)


def test_half_precision_is_summed_in_single_precision():
    """2048 + 1 is 2048 in half precision."""
    np.testing.assert_array_equal(fetch_all([[2048] * 40, [1] * 40, [1] * 40], "float16"), [2050] * 40)


def test_a_fetch_adds_in_a_chain_of_gradients():
    """In a chain of gradients, MXNet skips the addition, and the second summand adds to the first."""
    graph = JsonGraph()
    x = graph.add("null", "x", group="d0", __shape__=(4,))
    y = graph.add("null", "y", group="d1", __shape__=(4,))
    base = graph.add("_copy", "base", [x], "d0")
    region = graph.fetch("region", [y], (4,), [((0,), (4,), [(0, (0,))])], "d0")
    head = graph.add("_copy", "copy", [graph.add("_grad_add", "sum", [base, region], "d0")], "d0")
    executor = bind(graph.symbol(head), {"d0": mx.cpu(0), "d1": mx.cpu(1)})
    seen = []
    executor.set_monitor_callback(lambda name, _: seen.append(name))
    executor.arg_dict["x"][:] = 5
    executor.arg_dict["y"][:] = 2
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [7] * 4)
    mx.nd.waitall()
    assert seen == [b"base_output", b"region_output", b"copy_output"]


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_regions_larger_than_caches_are_written_to_memory(dtype):
    """Rows begin and end anywhere, some are short, and some elements are in no piece."""
    rng = np.random.RandomState(0)
    rows = 1 + (16 << 20) // (133 * np.dtype(dtype).itemsize)
    inputs = [random_array(rng, (rows, 101), dtype), random_array(rng, (rows + 2, 33), dtype)]
    pieces = [
        ((0, 0), (rows, 101), [(0, (0, 0))]),
        ((0, 101), (rows - 1, 7), [(1, (1, 26))]),
        ((1, 108), (rows - 1, 25), [(1, (3, 0))]),
    ]
    result = run_fetch((rows, 133), inputs, pieces, 3, dtype)
    np.testing.assert_array_equal(result, expected_region((rows, 133), inputs, pieces, 3, dtype))


def test_overwrites_its_input():
    array = mx.nd.array(np.arange(6, dtype="float32"))
    pieces = pieces_text([((0,), (3,), [(0, (3,))]), ((3,), (3,), [(0, (0,)), (0, (1,))])])
    invoke("_tofu_multi_fetch", [array], {"num_args": 1, "shape": "(6,)", "pieces": pieces}, array)
    np.testing.assert_array_equal(array.asnumpy(), [3, 4, 5, 1, 3, 5])


def test_fills_with_minus_infinity():
    result = run_fetch((3,), [np.ones(1, "float32")], [((1,), (1,), [(0, (0,))])], -np.inf, "float32")
    np.testing.assert_array_equal(result, [-np.inf, 1, -np.inf])


def test_without_inputs_is_all_fill():
    graph = JsonGraph()
    head = graph.fetch("region", [], (2, 3), [], fill="2.5", dtype=TYPES["float64"])
    result = graph.symbol(head).simple_bind(mx.cpu(), grad_req="null").forward()[0]
    np.testing.assert_array_equal(result.asnumpy(), np.full((2, 3), 2.5))


@pytest.mark.parametrize(
    ("pieces", "attributes", "message"),
    [
        ([((0,), (5,), [(0, (0,))])], {}, "a piece from 0 on, of 5, leaves its region of 4 in dimension 0"),
        ([((0, 0), (4, 1), [(0, (0, 0))])], {}, "a piece has not the 1 dimensions of its region"),
        ([((0,), (4,), [(1, (0,))])], {}, "there are 1 inputs, a piece reads number 1"),
        ([((0,), (4,), [(0, (-1,))])], {}, "a source begins outside"),
        ([], {"pieces": "0:4"}, '"0:4" is no begin:extent:sources'),
        ([], {"pieces": "0:4:0"}, '"0" is no input@begin'),
        ([], {"pieces": "0:4:0@0,0@0"}, "a source does not name one dimension of the region for each of its own"),
        ([], {"pieces": "0:4:0@0,0@0,1"}, "a source names dimensions that the region has not, or not in its order"),
        ([], {"pieces": "0:4:0@0@-1"}, "a piece of several cells lies along a dimension that its source has not"),
        ([], {"pieces": "0:4x:0@0"}, '"4x" is no integer'),
        ([], {"shape": "four"}, '"four" is no shape'),
        ([], {"pieces": f"0:4:0@{2**63 - 1}"}, "a source begins outside"),
        ([], {"pieces": "0:4:4294967296@0"}, "a piece reads number 4294967296"),
        ([], {"pieces": "0:99999999999999999999:0@0"}, "99999999999999999999 is not a number from"),
        ([], {"num_args": "4294967297"}, "4294967297 is not a number from 0 to"),
        ([], {"fill": "much"}, '"much" is no number'),
    ],
)
def test_malformed_attributes_are_refused(pieces, attributes, message):
    graph = JsonGraph()
    x = graph.add("null", "x")
    head = graph.fetch("region", [x], (4,), pieces, changed=attributes)
    with pytest.raises(mx.MXNetError) as error:
        graph.symbol(head)
    assert message in str(error.value)


def test_reading_outside_of_an_input_is_refused():
    graph = JsonGraph()
    x = graph.add("null", "x", __shape__=(3,), __dtype__=0)
    symbol = graph.symbol(graph.fetch("region", [x], (2,), [((0,), (2,), [(0, (2,))])]))
    with pytest.raises(RuntimeError) as error:
        _mxnet.infer(symbol.handle.value, {}, {})
    assert "region reads outside of input 0 of shape [3] in dimension 0" in str(error.value)


def test_skipped_fetches_read_nothing():
    """TOFU_SKIP_FETCH=1 applies to a whole process."""
    program = (
        "import numpy as np, tofu\nfrom tests.nnvm.test_multi_fetch import _mxnet, run_fetch\n"
        "run_fetch((3,), [np.ones(3, 'float32')], [((0,), (3,), [(0, (0,))])], 0, 'float32')\n"
        "print(_mxnet.counters())"
    )
    environment = os.environ | {"TOFU_SKIP_FETCH": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "{'bytes_read_remote': 0, 'bytes_read_local': 0, 'launches': 0}"
