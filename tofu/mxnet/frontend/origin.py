"""Where the operators of a semantic graph come from: the nodes of MXNet's training graph that the workers' nodes are copies of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tofu.graph import Operator


@dataclass(frozen=True)
class Origin:
    """What the execution graph needs to know of an operator beside the semantic graph (`Operator.origin`).

    Attributes
    ----------
    node
        The position of its node in the training graph; -1 for one that is made by name.
    rewritten
        The attributes in which it differs from the node.
    asked
        Outputs that a worker's copy has to be asked for, whether or not somebody reads them.
    replaced
        The position of the node in whose place an operator that is made by name stands; -1 for none. A monitor shows it as that node.
    """

    node: int = -1
    rewritten: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[int, ...] = ()
    replaced: int = -1

    @property
    def shown(self) -> int:
        """The position of the node that it is a copy of, or stands for; -1 for none."""
        return max(self.node, self.replaced)


MADE_BY_NAME = Origin()


def find_origin(operator: Operator) -> Origin:
    """The origin of an operator; parts that say nothing of it are made by name."""
    return operator.origin if isinstance(operator.origin, Origin) else MADE_BY_NAME
