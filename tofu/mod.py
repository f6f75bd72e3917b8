"""`tofu.mod.Module` and `tofu.mod.BucketingModule`: the drop-ins for MXNet's whose parameters only exist as shards."""

from tofu.mxnet.runtime.bucketing import BucketingModule
from tofu.mxnet.runtime.module import Module

__all__ = ["BucketingModule", "Module"]
