"""MXNet's modules for several devices. They store parameters as shards."""
