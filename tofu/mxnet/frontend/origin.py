"""Origin of a semantic graph's operators: the nodes of MXNet's training graph that the workers' nodes copy."""

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
        The position of its node in the training graph; -1 for one made by name.
    rewritten
        The attributes that differ from the node's.
    asked
        Outputs that a worker's copy must compute even if nobody reads them.
    replaced
        The position of the node that an operator made by name replaces; -1 for none. A monitor shows it as that node.
    """

    node: int = -1
    rewritten: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[int, ...] = ()
    replaced: int = -1

    @property
    def shown(self) -> int:
        """Position of the node that it copies or replaces; -1 for none."""
        return max(self.node, self.replaced)


MADE_BY_NAME = Origin()


def find_origin(operator: Operator) -> Origin:
    """Return the origin of an operator. Parts without one are made by name."""
    return operator.origin if isinstance(operator.origin, Origin) else MADE_BY_NAME
