"""MultiProposal split by batch: each worker numbers the samples that it has from where its part begins.

The part: `csrc/nnvm/parts/proposal.cc`, described in `tdl_ops/mxnet/proposal.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts


def _is_single(operator: Operator, inputs: Inputs) -> bool:
    """Numbers in single precision: MXNet's kernel knows no others."""
    return all(tensor.dtype == "float32" for tensor in inputs)


def _expand(parts: Parts) -> None:
    parts.last_operator("_tofu_multi_proposal", parts.whole.attributes, parts.whole.inputs)


LOWERINGS = {"_contrib_MultiProposal": Lowering(_expand, is_possible=_is_single)}
