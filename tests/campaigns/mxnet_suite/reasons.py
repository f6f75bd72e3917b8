"""Known reasons for tests that pass on one device only."""

from __future__ import annotations

ROUNDING = "rounding of single precision, for additions in another order: it passes in double precision"
REASONS: dict[tuple[str, str, str], str] = {
    ("test_module", "test_module_layout", "module"): "over 3 workers: expects the two halves that two contexts have",
    (
        "test_symbol",
        "test_eliminate_common_expr",
        "symbol",
    ): "counts the nodes that MXNet's own passes leave for one device",
    ("test_operator", "test_take", "symbol"): "expects an operator's error where outputs are read; forward raises it",
    ("test_operator", "test_index_array", "symbol"): "has empty tensors, which are refused",
    ("test_gluon", "test_inline", ""): "counts the nodes of a block that MXNet's CachedOp writes into autograd's graph",
    (
        "test_gluon",
        "test_hybrid_multi_context",
        "",
    ): "has parameters on several contexts; a partitioned block is on its workers",
    ("test_gluon_rnn", "test_rnn_cells", "gluon"): (
        "unrolls the cells of a BidirectionalCell while autograd records, outside of the partitioned block that they belong to"
    ),
}
"""File, test and way (empty: in all ways) -> the reason."""


def find_reason(file: str, test: str, way: str) -> str:
    return REASONS.get((file, test, way)) or REASONS.get((file, test, "")) or ""
