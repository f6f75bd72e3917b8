"""What the workers and their shards are called wherever a framework asks for names."""

from __future__ import annotations


def worker_group(worker: int) -> str:
    """The group of a worker's nodes in an execution graph."""
    return f"tofu_worker_{worker}"


def shard_name(tensor: str, worker: int) -> str:
    """The name of the variable that holds a worker's shard of `tensor`."""
    return f"{tensor}@{worker}"
