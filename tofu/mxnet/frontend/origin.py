"""The MXNet node from which an operator of Tofu's graph was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tofu.graph import Operator


@dataclass(frozen=True)
class Origin:
    """The MXNet node from which Tofu built an operator. Workers run copies of this node.

    Attributes
    ----------
    node
        Position of the node in MXNet's graph, or -1 for none.
    rewritten
        The new value of each attribute that Tofu changed.
    requested
        Numbers of the outputs that are computed although no operator reads them.
    replaced
        Position of the node that the operator replaces, or -1. Monitors show this node's name.
    """

    node: int = -1
    rewritten: Mapping[str, str] = field(default_factory=dict)
    requested: tuple[int, ...] = ()
    replaced: int = -1

    @property
    def monitored_node(self) -> int:
        """Position of the node whose name `mx.mon.Monitor` shows for the outputs, or -1."""
        return max(self.node, self.replaced)


def find_origin(operator: Operator) -> Origin:
    """Return the origin of an operator. Operators that Tofu added have an origin without a node."""
    return operator.origin if isinstance(operator.origin, Origin) else Origin()
