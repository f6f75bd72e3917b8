"""Build the program that each worker runs on its shards, with all transfers between workers."""
