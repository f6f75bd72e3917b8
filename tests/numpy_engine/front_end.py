from tests.numpy_engine.operators import DESCRIPTIONS, LOWERINGS, SHAPES
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind

DTYPE, ITEM_BYTES = "float64", 8


class NumpyFrontEnd:
    descriptions = DESCRIPTIONS
    lowerings = LOWERINGS

    def infer_shapes(self, op, attributes, inputs):
        return SHAPES[op](*inputs, **attributes)

    def draws_undescribed(self, operator, is_whole):
        return False

    def draws(self, operator, for_training):
        return False


class NumpyStep:
    """Training step under construction. Tensors are positions; operators run in the current `phase`."""

    def __init__(self):
        self.phase = Phase.FORWARD
        self.tensors, self.operators, self.outputs = [], [], []
        self.gradients, self.updated, self.next_values = {}, set(), {}

    def variable(self, name, *shape, kind=TensorKind.PARAMETER):
        self.tensors.append(Tensor(name, shape, DTYPE, ITEM_BYTES, kind))
        return len(self.tensors) - 1

    def input(self, name, *shape):
        return self.variable(name, *shape, kind=TensorKind.INPUT)

    def apply(self, op, name, *inputs, forward=None, sums_gradients=False, **attributes):
        """Add an operator. Return its output, or a list of several outputs.

        For a backward operator, `forward` names the forward operator.
        """
        shapes = SHAPES[f"np.{op}"](*(self.tensors[t].shape for t in inputs), **attributes)
        names = [f"{name}_output"] if len(shapes) == 1 else [f"{name}.{n}" for n in range(len(shapes))]
        outputs = [
            self.variable(output, *shape, kind=TensorKind.INTERMEDIATE)
            for output, shape in zip(names, shapes, strict=True)
        ]
        belongs_to = next((n for n, operator in enumerate(self.operators) if operator.name == forward), None)
        rest = tuple(outputs), self.phase, belongs_to
        self.operators.append(Operator(name, f"np.{op}", attributes, inputs, *rest, sums_gradients=sums_gradients))
        return outputs[0] if len(outputs) == 1 else outputs

    def graph(self):
        return Graph(
            tuple(self.tensors),
            tuple(self.operators),
            tuple(self.outputs),
            dict(self.gradients),
            frozenset(self.updated),
            dict(self.next_values),
        )
