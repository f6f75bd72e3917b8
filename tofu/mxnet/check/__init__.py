"""Check an execution graph (the MXNet graph that all workers run) for mistakes of the planner."""
