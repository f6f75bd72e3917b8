"""From a step function to the semantic graph: traced, calls inlined, equations named, arguments that come out again found."""
