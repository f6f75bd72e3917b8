"""Wide ResNets at ImageNet's size (section 7.1 of the paper): bottleneck blocks with more filters by a factor."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from tests.models.normalized import convolution
from tests.models.paper.model import PaperModel

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
STEM_FILTERS = 64  # filters of the first convolution, which is not widened


def wresnet(
    layers: int,
    width: int,
    batch: int = 8,
    *,
    image: int = 224,
    classes: int = 1000,
    base: int = STEM_FILTERS,
    blocks: tuple[int, ...] | None = None,
) -> PaperModel:
    """Return WResNet-`layers`-`width`, with `blocks` blocks in each group.

    Blocks of group g have base * 2^g * width filters and base * 2^(g + 2) * width outputs.
    """
    net = _convolve(mx.sym.Variable("data"), "stem", base, kernel=7, stride=2)
    net = mx.sym.Pooling(net, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="stem_pool")
    for group, repeats in enumerate(blocks or BLOCKS[layers]):
        inner = base * 2**group * width
        for block in range(repeats):
            stride = 2 if group and not block else 1
            net = _bottleneck(net, f"group{group}_block{block}", inner, stride, project=not block)
    net = mx.sym.Pooling(net, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=classes, name="fc")
    symbol = mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch")
    return PaperModel(f"WResNet-{layers}-{width}", symbol, {"data": (batch, 3, image, image)})


def _bottleneck(net: Any, name: str, inner: int, stride: int, project: bool) -> Any:
    skip = _convolve(net, f"{name}_project", 4 * inner, 1, stride, relu=False) if project else net
    net = _convolve(net, f"{name}_1", inner, 1, 1)
    net = _convolve(net, f"{name}_2", inner, 3, stride)
    net = _convolve(net, f"{name}_3", 4 * inner, 1, 1, relu=False)
    return mx.sym.Activation(net + skip, act_type="relu", name=f"{name}_relu")


def _convolve(net: Any, name: str, filters: int, kernel: int, stride: int, relu: bool = True) -> Any:
    net = convolution(net, filters, kernel, stride, f"{name}_conv")
    net = mx.sym.BatchNorm(net, fix_gamma=False, name=f"{name}_norm")
    return mx.sym.Activation(net, act_type="relu", name=f"{name}_relu") if relu else net
