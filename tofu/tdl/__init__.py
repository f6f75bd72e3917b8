"""TDL, the tensor description language (section 4.1).

A description is a Python function that states how each element of an output is computed from elements of the inputs.
Tofu calls this function once with symbolic tensors, and records the result as a `Trace`. docs/tdl.md explains how to
describe an operator.
"""

from tofu.tdl import functions
from tofu.tdl.description import Description, describe
from tofu.tdl.expression import Any, Index
from tofu.tdl.forms import output, scatter, unwritten
from tofu.tdl.functions import *  # noqa: F403
from tofu.tdl.interpreter import interpret
from tofu.tdl.local import Local
from tofu.tdl.reducers import Max, Min, Opaque, Prod, Random, Sum
from tofu.tdl.registry import Registry
from tofu.tdl.tensor import Tensor
from tofu.tdl.tracing import Trace, trace

__all__ = [
    "Any",
    "Description",
    "Index",
    "Local",
    "Max",
    "Min",
    "Opaque",
    "Prod",
    "Random",
    "Registry",
    "Sum",
    "Tensor",
    "Trace",
    "describe",
    "interpret",
    "output",
    "scatter",
    "trace",
    "unwritten",
]
__all__ += functions.__all__
