"""MXNet symbols read into the semantic graph, and what is refused of them."""
