"""Tofu for MXNet: plan a model, and run it on several devices.

Importing this package imports MXNet, and raises an error if Tofu was built for another version of MXNet. Afterwards,
MXNet can load partitioned symbols, and its Updaters can update split parameters.
"""

from tofu.imports.mxnet import load

load()

from tofu.mxnet.partition import partition  # noqa: E402
from tofu.mxnet.runtime.optimizer.updating import install_updater  # noqa: E402
from tofu.mxnet.runtime.symbol.files import install_loaders  # noqa: E402  MXNet has to be there

__all__ = ["partition"]

install_loaders()
install_updater()
