"""Why tests fail when they are partitioned that pass on one device, where that is as it should be."""

from __future__ import annotations


def find_reason(file: str, test: str, way: str) -> str:
    """Why this test fails in this way; empty where nothing is known."""
    return REASONS.get((file, test, way)) or REASONS.get((file, test, "")) or ""


REASONS: dict[tuple[str, str, str], str] = {}
"""File, test and way (empty: in all ways) -> the reason."""
