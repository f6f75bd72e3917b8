"""The old location of `PartitionedSymbol`, for symbols that were pickled by versions up to 0.2."""

from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol, load_json

__all__ = ["PartitionedSymbol", "load_json"]
