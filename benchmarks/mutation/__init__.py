"""What `benchmarks.mutations` consists of: the bugs as data, a tree to plant them in, and what became of each."""
