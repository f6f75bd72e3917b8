"""Front end: reads MXNet symbols into Tofu's graph of a training step, and refuses models that cannot be partitioned."""
