"""Link from an operator of Tofu's graph to the node of MXNet's training graph that its copies are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tofu.graph import Operator


@dataclass(frozen=True)
class Origin:
    """Data of an operator that only the execution graph needs (`Operator.origin`).

    Attributes
    ----------
    node
        Position in the training graph of the node to copy; -1 for an operator that is created by name.
    rewritten
        Attributes that differ from the node's.
    asked
        Outputs that a worker's copy must compute even if nobody reads them.
    replaced
        Position of the node that an operator created by name replaces, or -1. Monitors see this node.
    """

    node: int = -1
    rewritten: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[int, ...] = ()
    replaced: int = -1

    @property
    def monitored_node(self) -> int:
        """Position of the node that the operator copies or replaces; -1 for none."""
        return max(self.node, self.replaced)


MADE_BY_NAME = Origin()


def find_origin(operator: Operator) -> Origin:
    """Return the origin of an operator. An operator without one is created by its name."""
    return operator.origin if isinstance(operator.origin, Origin) else MADE_BY_NAME
