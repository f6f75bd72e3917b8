"""The host of the process: files, other processes, Ctrl-C, memory, garbage collection."""
