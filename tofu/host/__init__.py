"""The host of the process: files, Ctrl-C, memory, garbage collection."""
