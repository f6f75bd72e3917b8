"""Tofu for MXNet: reads symbols, plans them, and runs the plans on several devices.

Importing this package imports MXNet, and checks that Tofu was built for this version of it. The import changes two
parts of MXNet: its loaders return a partitioned symbol from a file that has one, and its Updaters update shards.
"""

from tofu.imports.mxnet import load

load()

from tofu.mxnet.partition import partition  # noqa: E402
from tofu.mxnet.runtime.optimizer.updating import install_updater  # noqa: E402
from tofu.mxnet.runtime.symbol.files import install_loaders  # noqa: E402  MXNet has to be there

__all__ = ["partition"]

install_loaders()
install_updater()
