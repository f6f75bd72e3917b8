"""Estimate the workspace of convolutions, which is memory that their kernels request while they run.

cuDNN and oneDNN choose their algorithms at run time. The estimate is for the algorithm that needs most memory: it
copies the window of each output position. For cuDNN, the attribute `workspace` limits the size, in MiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tofu import _mxnet
from tofu.mxnet.backend.buffers import Variables
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.mxnet.frontend.symbol_text import GROUP_KEY

DEFAULT_LIMIT_MIB = 1024  # MXNet's default of `workspace`

Shape = Sequence[int]


def estimate_workspace(symbol: Any, variables: Variables) -> dict[str, int]:
    """Return {device group: bytes of the largest workspace of its convolutions}."""
    handle = symbol.handle.value
    nodes = _mxnet.nodes(handle)
    convolutions = [node for node in nodes if node["op"].endswith(("Convolution", "Deconvolution"))]
    if not convolutions:
        return {}
    shapes, types = _mxnet.infer(handle, *variables)
    needed: dict[str, int] = {}
    for node in convolutions:
        inputs = [shapes[nodes[source]["entry"] + index] or () for source, index in node["inputs"]]
        item_bytes = np.dtype(DTYPE_NAMES[types[node["entry"]]]).itemsize
        unfolded = item_bytes * _count_window_elements(node, inputs, shapes[node["entry"]] or ())
        limit = int(node["attrs"].get("workspace", DEFAULT_LIMIT_MIB)) << 20
        group = node["attrs"].get(GROUP_KEY, "")
        needed[group] = max(needed.get(group, 0), min(unfolded, limit))
    return needed


def _count_window_elements(node: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    is_backward = "_backward_" in node["op"]  # a backward operator's first input is the output's gradient
    data, weight = inputs[is_backward], inputs[is_backward + 1]
    result = inputs[0] if is_backward else output
    positions = data if node["op"].endswith("Deconvolution") else result
    window = prod(weight[1:]) * int(node["attrs"].get("num_group", 1))
    return window * positions[0] * prod(positions[2:])
