"""Location of symbols that versions up to 0.2 pickled."""

from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol, load_json

__all__ = ["PartitionedSymbol", "load_json"]
