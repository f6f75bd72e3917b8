"""`tofu.gluon.partition`: run an MXNet Gluon block and its Trainer on several devices."""

from mxnet import gluon as _of_mxnet

from tofu.errors import suggest
from tofu.mxnet.gluon.block import partition

__all__ = ["partition"]


def __getattr__(name: str) -> object:
    instead = f": use mxnet.gluon.{name}" if hasattr(_of_mxnet, name) else suggest(name, __all__)
    raise AttributeError(f"module 'tofu.gluon' has no attribute {name!r}{instead}")
