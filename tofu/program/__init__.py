"""Programs, which list what every worker (device) runs, in order.

Before a worker computes its part of an operator, a *fetch* copies the needed elements from the memory of other workers.
"""

from tofu import _core
from tofu.program.attributes import worker_attributes
from tofu.program.check import check_program, is_checked
from tofu.program.emission import TRAINING, PlannedProgram, write_outlines, write_program, write_short_program
from tofu.program.nodes import Entry, Node, Piece, PieceSource
from tofu.program.program import OutputShards, Program
from tofu.program.tables import NodeKind

shard_name, worker_group = _core.shard_name, _core.worker_group
