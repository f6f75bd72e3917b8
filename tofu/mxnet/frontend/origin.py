"""The MXNet node from which an operator of Tofu's graph was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tofu.graph import Operator


@dataclass(frozen=True)
class Origin:
    """The MXNet node that the workers copy to run an operator.

    Attributes
    ----------
    node
        Position of this node in MXNet's graph, or -1 if no node is copied.
    rewritten
        New values for some attributes of the node.
    requested
        Numbers of outputs to compute even if no operator reads them.
    replaced
        Position of the node that the operator replaces, or -1. Monitors show the name of this node.
    """

    node: int = -1
    rewritten: Mapping[str, str] = field(default_factory=dict)
    requested: tuple[int, ...] = ()
    replaced: int = -1

    @property
    def monitored_node(self) -> int:
        """Position of the node whose name monitors show, or -1."""
        return max(self.node, self.replaced)


MADE_BY_NAME = Origin()


def find_origin(operator: Operator) -> Origin:
    """Return the origin of an operator. If Tofu added the operator, the origin has no node."""
    return operator.origin if isinstance(operator.origin, Origin) else MADE_BY_NAME
