"""`tofu.gluon.partition`: a Gluon block, its parameters and its Trainer on several devices, by one line."""

from tofu.mxnet.gluon.block import partition

__all__ = ["partition"]
