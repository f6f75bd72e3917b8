"""Tofu for MXNet: plan a model, and run it on several devices.

Importing this package imports MXNet. It also makes MXNet load partitioned models, and makes MXNet's Updaters accept
split parameters. An error is raised if Tofu was built for another version of MXNet.
"""

from tofu.imports.mxnet import load

load()

from tofu.mxnet.partition import partition  # noqa: E402
from tofu.mxnet.runtime.optimizer.updating import install_updater  # noqa: E402
from tofu.mxnet.runtime.symbol.files import install_loaders  # noqa: E402  MXNet has to be there

__all__ = ["partition"]

install_loaders()
install_updater()
