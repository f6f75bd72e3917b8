"""`tofu.mod.Module`: the drop-in for `mx.mod.Module` whose parameters only exist as shards."""

from tofu.mxnet.runtime.module import Module

__all__ = ["Module"]
