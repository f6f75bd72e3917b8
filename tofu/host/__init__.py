"""The operating system and the Python process: files, other processes, Ctrl-C, memory, garbage collection."""
