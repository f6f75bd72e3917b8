"""What a forward pass that runs once more computes otherwise: backward operators need one in training mode, which nothing has used yet.

MXNet lets a backward follow any forward. Where the last one ran for inference, or a backward has used the memory of what it kept, it runs
once more before the backward, unless its numbers would be others.
"""

from __future__ import annotations

from tofu import _mxnet
from tofu.errors import TofuError, raise_together
from tofu.graph.semantic import Graph, Operator, Phase

# They compute something else when they train. Those that draw random numbers do too, and are found by MXNet's own mark.
OF_TWO_MODES = frozenset(("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "Custom", "IdentityAttachKLSparseReg"))

DRAW_IN_TRAINING = frozenset(("Dropout", "LeakyReLU", "RNN"))  # and not else, where Dropout's mode does not say so


def _draws(operator: Operator) -> bool:
    if operator.op in ("Dropout", "RNN"):
        return float(operator.attributes.get("p", 0.5 if operator.op == "Dropout" else 0)) > 0
    if operator.op == "LeakyReLU":
        return operator.attributes.get("act_type") == "rrelu"
    return bool(_mxnet.operator_info(operator.op)["is_random"])


def _has_two_modes(operator: Operator) -> bool:
    if operator.op in OF_TWO_MODES:
        return operator.attributes.get("use_global_stats", "False") not in ("True", "1")
    return _draws(operator)


def _draws_when_scoring(operator: Operator) -> bool:
    if operator.op == "Dropout":
        return operator.attributes.get("mode", "training") == "always" and _draws(operator)
    return operator.op not in DRAW_IN_TRAINING and _draws(operator)


def draws_when_scoring(graph: Graph) -> bool:
    """Whether an operator of the model draws random numbers in inference too."""
    return any(_draws_when_scoring(o) for o in graph.operators if o.phase is Phase.FORWARD)


def has_two_modes(graph: Graph) -> bool:
    """Whether an operator of the model computes something else when it trains."""
    return any(_has_two_modes(o) for o in graph.operators if o.phase is Phase.FORWARD)


def refuse_gradients_of_inference(graph: Graph, runs_again: bool) -> None:
    """Raise TofuError where backward(is_train=False) after forward(is_train=False) would not be of what that forward computed: operators
    run in parts that train, keep nothing for a gradient unless they train (RNN), or run once more and draw other numbers. Dropout passes
    gradients on as it passed its input on.
    """
    forward = [o for o in graph.operators if o.phase is Phase.FORWARD]
    raise_together(
        TofuError,
        "backward(is_train=False) has no right answer here, since these operators compute something else when they train, keep nothing for "
        "a gradient unless they do, or draw other numbers if they run once more. Call forward(is_train=True) and then backward():",
        [
            f"{o.op} {o.name}"
            for o in forward
            if (o.op == "RNN" or (o.op != "Dropout" and _has_two_modes(o) and not _draws_when_scoring(o)))
            or (runs_again and _draws_when_scoring(o))
        ],
    )


def refuse_other_mode(graph: Graph, call: str) -> None:
    """Raise TofuError where an operator of the model computes something else when it trains, and `call` mixes the two modes."""
    raise_together(
        TofuError,
        f"{call} has no right answer here, since these operators compute something else when they train. Call forward(is_train=True) and "
        "then backward():",
        [f"{o.op} {o.name}" for o in graph.operators if o.phase is Phase.FORWARD and _has_two_modes(o)],
    )


def refuse_second_run(graph: Graph) -> None:
    """Raise TofuError where an operator of the model draws other numbers, or changes a state again, if its forward pass runs twice."""
    changes = [
        o for o in graph.operators if o.phase is Phase.FORWARD and o.op not in OF_TWO_MODES and (o.mutates or _draws(o))
    ]
    raise_together(
        TofuError,
        "backward() was called twice after one forward(is_train=True). The first one has used the memory of what forward kept, and these "
        "operators would draw other numbers, or change their states again, if it ran once more. Call forward(is_train=True) before it:",
        [f"{operator.op} {operator.name}" for operator in changes],
    )
