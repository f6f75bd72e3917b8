"""MXNet, the first engine: its symbols read, its operators lowered, its graphs built, bound, run, compared and verified.

Importing anything of it imports MXNet, checks that Tofu was built for it, has MXNet's own loaders give partitioned symbols back, and has
its Updaters update what lies in shards.
"""

from tofu.imports.mxnet import load

load()

from tofu.mxnet.partition import partition  # noqa: E402
from tofu.mxnet.runtime.optimizer.updating import install_updater  # noqa: E402
from tofu.mxnet.runtime.symbol.files import install_loaders  # noqa: E402  MXNet has to be there

__all__ = ["partition"]

install_loaders()
install_updater()
