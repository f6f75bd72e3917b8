"""The machine that a program runs on: files written whole or not at all, Ctrl-C, memory, progress on a terminal. No framework."""
