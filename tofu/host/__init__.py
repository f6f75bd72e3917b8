"""Operating system and Python process: files, processes, Ctrl-C, memory, garbage collection."""
