"""Front end: MXNet symbols read into the semantic graph, and refusals of those that cannot be partitioned."""
