"""Code that runs a planned model with MXNet: shards on devices, executors, symbols and modules."""
