"""Check an execution graph (the symbol that all workers run) for mistakes of the planner."""
