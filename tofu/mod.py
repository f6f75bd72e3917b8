"""`tofu.mod`: replacements for MXNet's Module, BucketingModule and SVRGModule, which run on several devices."""

from tofu.errors import suggest
from tofu.mxnet.runtime.module.bucketing import BucketingModule
from tofu.mxnet.runtime.module.module import Module
from tofu.mxnet.runtime.module.svrg import SVRGModule

__all__ = ["BucketingModule", "Module", "SVRGModule"]


def __getattr__(name: str) -> object:
    raise AttributeError(f"module 'tofu.mod' has no attribute {name!r}{suggest(name, __all__)}")
