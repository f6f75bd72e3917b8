import mxnet as mx

from tests.equality.comparison import compare_split, list_operators
from tests.models.plain import PlainModel


def build_normalized_cells(steps=4, hidden=8):
    weights = [mx.sym.Variable(name) for name in ("i2h_weight", "h2h_weight", "norm_gamma", "norm_beta")]
    data = mx.sym.SliceChannel(mx.sym.Variable("data"), num_outputs=steps, axis=1, squeeze_axis=True, name="steps")
    state, states = None, []
    for t in range(steps):
        total = mx.sym.FullyConnected(data[t], weights[0], num_hidden=hidden, no_bias=True, name=f"i2h{t}")
        if state is not None:
            total = total + mx.sym.FullyConnected(state, weights[1], num_hidden=hidden, no_bias=True, name=f"h2h{t}")
        state = mx.sym.LayerNorm(mx.sym.Activation(total, act_type="tanh"), *weights[2:], name=f"norm{t}")
        states.append(state)
    net = mx.sym.FullyConnected(mx.sym.Concat(*states, dim=1), num_hidden=5, name="out")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (8, steps, 6)}, 5)


def test_a_step_in_parts_shares_its_fetches_as_it_was_priced():
    hints = {"norm2": "k", "norm2_backward": "k", "norm1": "i0", "norm3": "i0", "i2h_weight": 0}
    executor = compare_split(build_normalized_cells(), 2, hints | {f"i2h{t}": "b" for t in range(4)})
    assert {"LayerNorm", "_tofu_layer_norm_apply"} <= list_operators(executor)
