"""Bound partitions: shards on devices, executors, and the drop-ins for MXNet's symbol and module (stage 7 of the pipeline)."""
