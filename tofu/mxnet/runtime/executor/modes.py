"""Errors for backward passes whose gradients would be wrong.

MXNet allows a backward pass after any forward pass. If the forward pass was for inference, or if its results were
overwritten, Tofu runs a second forward pass first. The functions of this module raise an error if the second pass would
compute other numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from tdl_ops.mxnet.attributes import is_true
from tofu.errors import TofuError, raise_together
from tofu.graph.semantic import Graph, Operator, Phase
from tofu.mxnet.frontend.randomness import draws, draws_in

TWO_MODE_OPERATORS = frozenset(("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "Custom", "IdentityAttachKLSparseReg"))
"""Operators without random numbers that compute other results in training than in inference."""


def _has_two_modes(operator: Operator) -> bool:
    if operator.op in TWO_MODE_OPERATORS:
        return not is_true(operator.attributes, "use_global_stats")
    return draws(operator)


def _list_forward(graph: Graph) -> list[Operator]:
    return [operator for operator in graph.operators if operator.phase is Phase.FORWARD]


def _draws_in_inference(operator: Operator) -> bool:
    return draws_in(operator, for_training=False) and draws(operator)


def draws_in_inference(graph: Graph) -> bool:
    """Return True if an operator draws random numbers even in inference."""
    return any(map(_draws_in_inference, _list_forward(graph)))


def has_two_modes(graph: Graph) -> bool:
    """Return True if an operator computes other results in training than in inference."""
    return any(map(_has_two_modes, _list_forward(graph)))


def refuse_gradients_of_inference(graph: Graph, runs_again: bool) -> None:
    """Raise TofuError if gradients would be wrong after forward(is_train=False).

    They are wrong if an operator computes other results in training, or saves nothing for its gradient. If a second
    forward pass runs (`runs_again`), they are also wrong for random operators.
    """
    _refuse(
        graph,
        "backward(is_train=False) is not possible: these operators compute something else in training, save nothing for a gradient in "
        "inference, or draw other numbers when they run again. Call forward(is_train=True) and then backward():",
        lambda o: runs_again if _draws_in_inference(o) else o.op == "RNN" or (o.op != "Dropout" and _has_two_modes(o)),
    )


def _refuse(graph: Graph, headline: str, is_refused: Callable[[Operator], bool]) -> None:
    raise_together(TofuError, headline, [f"{o.op} {o.name}" for o in _list_forward(graph) if is_refused(o)])


def refuse_other_mode(graph: Graph, call: str) -> None:
    """Raise TofuError if an operator computes other results in training than in inference.

    `call` is the user's call for the message, such as "backward(is_train=False)".
    """
    _refuse(
        graph,
        f"{call} is not possible: these operators compute something else in training. Call forward(is_train=True) and then backward():",
        _has_two_modes,
    )


def refuse_second_run(graph: Graph) -> None:
    """Raise TofuError if a second forward pass would compute other results or change states again."""
    _refuse(
        graph,
        "backward() was called twice after one forward(is_train=True). The first call reused the memory of the forward results, and these "
        "operators would draw other numbers, or change their states again, in a second forward. Call forward(is_train=True) before it:",
        lambda o: o.op not in TWO_MODE_OPERATORS and (bool(o.mutates) or draws(o)),
    )
