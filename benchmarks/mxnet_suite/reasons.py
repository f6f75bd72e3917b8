"""Why tests fail when they are partitioned that pass on one device, where that is as it should be."""

from __future__ import annotations

ROUNDING = "rounding of single precision, for additions in another order: it passes in double precision"
SPARSE = "row_sparse or csr storage, which cannot be partitioned"
PER_CONTEXT = (
    "looks at what each of several contexts has; tofu.mod.Module is one device to its user, and its results are whole"
)
REASONS: dict[tuple[str, str, str], str] = {
    ("test_module", "test_executor_group", "symbol"): SPARSE,
    ("test_module", "test_factorization_machine_module", ""): SPARSE,
    ("test_module", "test_module_initializer", ""): SPARSE,
    ("test_module", "test_module_ctx_group", "module"): PER_CONTEXT,
    ("test_module", "test_module_layout", "module"): PER_CONTEXT,
    (
        "test_module",
        "test_save_load",
        "module",
    ): "reads the kvstore that MXNet makes for two contexts; for one it makes none, as Tofu",
    ("test_multi_device_exec", "test_ctx_group_sparse", ""): SPARSE,
    ("test_init", "test_rsp_const_init", ""): SPARSE,
    (
        "test_symbol",
        "test_eliminate_common_expr",
        "symbol",
    ): "counts the nodes that MXNet's own passes leave for one device",
    ("test_contrib_svrg_module", "test_module_initializer", ""): SPARSE,
}
"""File, test and way (empty: in all ways) -> the reason."""


def find_reason(file: str, test: str, way: str) -> str:
    """Why this test fails in this way; empty where nothing is known."""
    return REASONS.get((file, test, way)) or REASONS.get((file, test, "")) or ""
