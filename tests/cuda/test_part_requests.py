"""Parts of lowered operators on CPUs; `test_plugin.py` runs these tests on GPU kernels, too."""

import mxnet as mx
import numpy as np
import pytest

from tests.cuda import part_cases
from tests.shared.json_graph import invoke
from tofu.mxnet.verify.kernels import compose

SHAPE, AXIS = (3, 7, 5), 1
ATTRIBUTES = {"axis": AXIS, "count": 60, "fix_gamma": False, "temperature": 1.5, "eps": 1e-3, "valid_thresh": 1}
ATTRIBUTES |= {"kernel": 3, "stride": 2, "pad": 1, "end": 2 * SHAPE[AXIS] - 1, "classes": SHAPE[AXIS] + 9}
PART = {"first": 2, "rows": 2 * SHAPE[AXIS], "extent": SHAPE[AXIS] + 1, "mode": "wrap", "keepdims": True}


def draw_part(name):
    letters = part_cases.PARTS[name].split(">")[0]
    rng = np.random.RandomState(3)
    inputs = [part_cases.draw(letter, rng, SHAPE, AXIS, "float64") for letter in letters]
    return inputs, {**ATTRIBUTES, **(PART if set("iIx") & set(letters) else {})}


def add_in_place(name, inputs, attributes, base):
    """Return `base` plus the part's first output, and the nodes that ran. The part's kernel adds in place."""
    texts = {key: str(value) for key, value in attributes.items()}
    copy = mx.sym.identity(mx.sym.Variable("base"), name="copy")
    total = mx.sym._internal._grad_add(copy, compose(name, texts, len(inputs))[0], name="sum")
    result = mx.sym.identity(total, name="result")
    worker = mx.cpu(1)  # on its default device, MXNet rewrites graphs without gradients
    given = {"base": base, **{f"input{n}": array for n, array in enumerate(inputs)}}
    listed = result.list_arguments(), result.list_auxiliary_states()
    arguments, states = ({name: given[name].copyto(worker) for name in names} for names in listed)
    executor = result.bind(worker, args=arguments, aux_states=states, grad_req="null")
    ran = []
    executor.set_monitor_callback(lambda node, _: ran.append(node.decode()))
    found = executor.forward(is_train=True)[0]
    mx.nd.waitall()
    return found.asnumpy(), ran


@pytest.mark.parametrize("name", part_cases.PARTS)
def test_parts_add_on_request(name):
    inputs, attributes = draw_part(name)
    written = invoke(name, [array.copy() for array in inputs], attributes)[0].asnumpy()
    base = mx.nd.array(np.random.RandomState(4).uniform(1, 2, written.shape), dtype="float64")
    found, ran = add_in_place(name, inputs, attributes, base)
    assert "sum_output" not in ran
    np.testing.assert_allclose(found, base.asnumpy() + written, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name, letters in part_cases.PARTS.items() if ">d" in letters])
def test_parts_may_overwrite_their_data(name):
    inputs, attributes = draw_part(name)
    expected = [array.asnumpy() for array in invoke(name, [array.copy() for array in inputs], attributes)]
    others = [mx.nd.zeros(array.shape, dtype=array.dtype) for array in expected[1:]]
    found = invoke(name, inputs, attributes, [inputs[0], *others])
    for array, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(array.asnumpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("place", range(SHAPE[AXIS]))
def test_the_maximum_of_a_line_keeps_nan(place):
    data = np.random.RandomState(0).uniform(-1, 1, SHAPE)
    data[1, place, 2] = np.nan
    found = invoke("_tofu_softmax_maximum", [mx.nd.array(data, dtype="float64")], ATTRIBUTES)[0].asnumpy()
    np.testing.assert_array_equal(found, data.max(axis=AXIS, keepdims=True))


@pytest.mark.parametrize("name", ["_tofu_make_loss_gradient", "_tofu_softmax_output_gradient_by_count"])
def test_gradients_without_valid_labels_are_divided_by_one(name):
    inputs, attributes = draw_part(name)
    none, one = (invoke(name, [*inputs[:-1], mx.nd.array([n], dtype="float64")], attributes)[0] for n in (0, 1))
    assert np.isfinite(none.asnumpy()).all()
    np.testing.assert_array_equal(none.asnumpy(), one.asnumpy())


def test_elements_at_the_threshold_are_invalid():
    data = mx.nd.array([0.5, 1, 1, 1.5, 2], dtype="float64")
    found = invoke("_tofu_valid_cells", [data], {**ATTRIBUTES, "axis": 0})[0].asnumpy()
    np.testing.assert_array_equal(found, [2])
