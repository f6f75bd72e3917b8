"""MXNet, the first engine: its symbols read, its operators lowered, its graphs built, bound, run, compared and verified."""
