"""The drop-ins for MXNet's modules, over shards."""
