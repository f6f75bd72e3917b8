"""The operating system and the Python process: files, processes, Ctrl-C, memory, garbage collection."""
