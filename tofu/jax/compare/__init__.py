"""A step under Tofu's plans and under those that people pick by hand: what moves, as XLA's own text of the compiled step has it."""
