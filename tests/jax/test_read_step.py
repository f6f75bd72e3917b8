import jax
import jax.numpy as jnp
import pytest

from tofu.errors import UnsupportedError
from tofu.graph import TensorKind
from tofu.jax import read_step
from tofu.jax.frontend.trace import trace_step
from tofu.jax.planning import plan_step, read_settings


def shape(*extents, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(extents, dtype)


def train(params, batch):

    def loss(params):
        with jax.named_scope("mlp"):
            hidden = jax.nn.relu(batch["x"] @ params["layer_0"]["kernel"] + params["layer_0"]["bias"])
        return jnp.mean((hidden @ params["layer_1"]["kernel"] - batch["y"]) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


PARAMS = {"layer_0": {"kernel": shape(512, 256), "bias": shape(256)}, "layer_1": {"kernel": shape(256, 128)}}
BATCH = {"x": shape(16, 512), "y": shape(16, 128)}


def test_names_are_paths_and_scopes():
    graph = read_step(train, (PARAMS, BATCH)).graph
    names = [t.name for t in graph.tensors if t.kind is not TensorKind.INTERMEDIATE]
    assert names == ["params/layer_0/bias", "params/layer_0/kernel", "params/layer_1/kernel", "batch/x", "batch/y"]
    products = [operator.name for operator in graph.operators if operator.name.endswith("dot_general")]
    assert products[:2] == ["jvp(mlp)/dot_general", "dot_general"]
    assert products[-1] == "transpose(jvp(mlp))/dot_general"


def test_returned_state_is_the_next_value():
    graph = read_step(train, (PARAMS, BATCH)).graph
    names = [f"params/layer_{name}" for name in ("0/bias", "0/kernel", "1/kernel")]
    assert [graph.tensors[t].name for t in graph.next_values] == names
    assert all(graph.tensors[a].shape == graph.tensors[b].shape for a, b in graph.next_values.items())
    assert len(graph.outputs) == 1


def test_steps_are_planned_from_shapes():
    partition = plan_step(read_step(train, (PARAMS, BATCH)), read_settings(4, {"cache": False}))
    assert partition.plan.optimality == "optimal"
    assert partition.plan.communication_bytes > 0
    assert max(partition.plan.worker_bytes) < partition.measure_whole() / 2
    with pytest.raises(UnsupportedError, match="The step has side effects"):
        read_step(lambda x: jax.debug.print("{}", x) or x, (shape(4),))
    with pytest.raises(UnsupportedError, match="A step is a function of arrays, not 3"):
        read_step(3, ())


@pytest.mark.parametrize("step", [lambda x: jnp.roll(x, 1, 0), lambda x: x.at[:-1].set(x[1:])])
def test_masks_of_shifts_are_computed_and_not_stored(step):
    read, _ = trace_step(step, (shape(64, 8),))
    assert not read.constants
