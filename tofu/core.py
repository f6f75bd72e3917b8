"""The planner without MXNet or JAX, for authors who connect another framework.

    task = core.analyse_step(core.Source(graph), engine, core.Settings(workers=4), core.Observer())
    partition = core.make_partition(task, core.Observer())

docs/engines.md shows a complete example. `import tofu.core` imports NumPy and SymPy, but no framework.
"""

from tofu.analysis import OperatorAccess, analyse
from tofu.engine import Backend, Engine, FrontEnd, Measured, Source
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.lowering import Lowering, Parts
from tofu.pipeline import Observer, Partition, Task, analyse_step, build_partition, make_partition
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.program import OutputShards, PlannedProgram, Program, worker_attributes, write_program
from tofu.search import Choices, Problem, find_strategies, make_problem
from tofu.search.native import COLLECTIVE_RULES, TransferRules
from tofu.search.topology import Topology
from tofu.tdl import Registry, interpret

__all__ = [
    "COLLECTIVE_RULES",
    "Backend",
    "Choices",
    "Engine",
    "FrontEnd",
    "Graph",
    "Lowering",
    "Measured",
    "Observer",
    "Operator",
    "OperatorAccess",
    "OutputShards",
    "Partition",
    "Parts",
    "Phase",
    "Plan",
    "PlannedProgram",
    "Problem",
    "Program",
    "Registry",
    "Settings",
    "Source",
    "Task",
    "Tensor",
    "TensorKind",
    "Topology",
    "TransferRules",
    "analyse",
    "analyse_step",
    "build_partition",
    "find_strategies",
    "interpret",
    "make_partition",
    "make_problem",
    "worker_attributes",
    "write_program",
]
