"""Ways to partition all models of this process, by replacing MXNet's names before the tests are imported."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

ONE_DEVICE = "one device"
GLUON = "gluon"
GLUON_IN_DOUBLE = "gluon, float64"
OPTIONS = {"on_infeasible": "replicate"}  # MXNet's tests have tensors of one element
UNDESCRIBED = {"Custom", "_Native", "_NDArray", "_contrib_quadratic"}
MAKERS = ("array", "empty", "ones", "zeros", "random.normal", "random.randn", "random.uniform")


def find_options(symbol: Any) -> dict[str, str]:
    """Operators without descriptions are replicated."""
    operators = {node["op"] for node in json.loads(symbol.tojson())["nodes"]}
    return {**OPTIONS, "undescribed": "error" if operators.isdisjoint(UNDESCRIBED) else "replicate"}


def partition_symbols(workers: int) -> None:
    import mxnet as mx

    import tofu

    def partitioned(own: Callable[..., Any]) -> Callable[..., Any]:
        def bind(self: Any, *args: Any, **kwargs: Any) -> Any:
            is_tofus = sys._getframe(1).f_globals.get("__name__", "").startswith("tofu.")
            if is_tofus or isinstance(self, tofu.PartitionedSymbol):
                return own(self, *args, **kwargs)
            return getattr(tofu.partition(self, workers, **find_options(self)), own.__name__)(*args, **kwargs)

        return bind

    for name in ("simple_bind", "bind"):
        setattr(mx.sym.Symbol, name, partitioned(getattr(mx.sym.Symbol, name)))


def partition_modules(workers: int) -> None:
    import mxnet as mx
    from mxnet.contrib.svrg_optimization import svrg_module

    import tofu

    def partitioned(symbol: Any) -> Any:
        is_plain = isinstance(symbol, mx.sym.Symbol) and not isinstance(symbol, tofu.PartitionedSymbol)
        return tofu.partition(symbol, workers, **find_options(symbol)) if is_plain else symbol

    class MultiContextModule(tofu.mod.Module):
        def __init__(self, symbol: Any, *args: Any, context: Any = None, ngpus: Any = None, **kwargs: Any) -> None:
            several = isinstance(context, list) and len(context) > 1
            contexts = [mx.cpu(n) for n in range(workers)] if several else None
            super().__init__(partitioned(symbol), *args, context=contexts, **kwargs)

    class PartitionedSVRGModule(tofu.mod.SVRGModule):
        def __init__(self, symbol: Any, *args: Any, context: Any = None, **kwargs: Any) -> None:
            super().__init__(partitioned(symbol), *args, **kwargs)

    class PartitionedBucketingModule(tofu.mod.BucketingModule):
        def __init__(self, sym_gen: Any, *args: Any, context: Any = None, ngpus: Any = None, **kwargs: Any) -> None:
            def make(key: Any) -> Any:
                symbol, *names = sym_gen(key)
                return partitioned(symbol), *names

            super().__init__(make, *args, **kwargs)

    for module in (mx.mod, mx.module.module):
        module.Module = MultiContextModule
    mx.mod.BucketingModule = PartitionedBucketingModule
    svrg_module.SVRGModule = PartitionedSVRGModule


def partition_blocks(workers: int, at_call: bool = False, double: bool = False) -> None:
    """Partition each HybridBlock when it is hybridized. With `at_call`, outermost blocks are also partitioned at their first call.

    With `double`, arrays and blocks are in double precision unless the script names a type.
    """
    import mxnet as mx

    import tofu
    from tofu.mxnet.gluon.block import PartitionedBlock

    kind = mx.gluon.HybridBlock
    if double:
        work_in_double()
    depth = 0  # of nested blocks

    def partitioned(own: Callable[..., Any], is_wanted: Callable[..., bool]) -> Callable[..., Any]:
        @functools.wraps(own)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            is_plain = not isinstance(self, PartitionedBlock)
            depth += 1
            try:
                if depth == 1 and is_plain and is_wanted(*args, **kwargs):
                    tofu.gluon.partition(self, workers, **OPTIONS)
                return own(self, *args, **kwargs)
            finally:
                depth -= 1

        return run

    kind.hybridize = partitioned(kind.hybridize, lambda active=True, *args, **kwargs: active)
    if at_call:
        kind.__call__ = partitioned(kind.__call__, lambda x, *args: isinstance(x, mx.nd.NDArray))


def work_in_double() -> None:
    """Make arrays float64 unless a script names a type, and cast blocks to float64 before they are called."""
    import mxnet as mx

    for name in MAKERS:
        folder, _, maker = name.rpartition(".")
        module = mx.nd.random if folder else mx.nd
        setattr(module, maker, functools.partial(getattr(module, maker), dtype="float64"))
    own = mx.gluon.Block.__call__
    depth = 0  # of nested blocks

    @functools.wraps(own)
    def call(self: Any, *args: Any) -> Any:
        nonlocal depth
        if depth == 0:
            types = {str(parameter.dtype) for parameter in self.collect_params().values()}
            if any("float32" in name for name in types):
                self.cast("float64")
        depth += 1
        try:
            return own(self, *args)
        finally:
            depth -= 1

    mx.gluon.Block.__call__ = call


WAYS: dict[str, Callable[[int], None]] = {
    ONE_DEVICE: lambda workers: None,
    "symbol": partition_symbols,
    "module": partition_modules,
    GLUON: partition_blocks,
    GLUON_IN_DOUBLE: functools.partial(partition_blocks, double=True),
    "gluon call": functools.partial(partition_blocks, at_call=True),
}
