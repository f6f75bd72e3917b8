"""MXNet engine: symbols are read, lowered, built into graphs, bound, run, compared and verified.

Importing any part of it imports MXNet and checks that Tofu was built for it. MXNet's own loaders then return
partitioned symbols, and its Updaters update shards.
"""

from tofu.imports.mxnet import load

load()

from tofu.mxnet.partition import partition  # noqa: E402
from tofu.mxnet.runtime.optimizer.updating import install_updater  # noqa: E402
from tofu.mxnet.runtime.symbol.files import install_loaders  # noqa: E402  MXNet has to be there

__all__ = ["partition"]

install_loaders()
install_updater()
