"""Turn a step function into a graph: trace it, inline its calls, rewrite its equations, and name its tensors."""
