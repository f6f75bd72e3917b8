"""The link from an operator of Tofu's graph to the operator (*node*) of MXNet's graph that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tofu.graph import Operator


@dataclass(frozen=True)
class Origin:
    """Data that MXNet needs to create the copies of an operator on the workers.

    Attributes
    ----------
    node
        Position of the node to copy in MXNet's graph, or -1 if the operator copies none.
    rewritten
        Attributes whose values differ from the node's.
    asked
        Outputs that a worker must compute even if nobody reads them.
    replaced
        Position of the node that the operator replaces without a copy, or -1. Monitors show this node.
    """

    node: int = -1
    rewritten: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[int, ...] = ()
    replaced: int = -1

    @property
    def monitored_node(self) -> int:
        """Position of the node that the operator copies or replaces, or -1."""
        return max(self.node, self.replaced)


MADE_BY_NAME = Origin()


def find_origin(operator: Operator) -> Origin:
    """Return the origin of an operator. An operator without one copies no node."""
    return operator.origin if isinstance(operator.origin, Origin) else MADE_BY_NAME
