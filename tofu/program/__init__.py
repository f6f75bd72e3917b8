"""Programs: what every worker runs, copies of operators and fetches in order, as plain numbers (stage 5 of the pipeline)."""

from tofu.program.attributes import worker_attributes
from tofu.program.program import OutputShards, Program, write_program

__all__ = ["OutputShards", "Program", "worker_attributes", "write_program"]
