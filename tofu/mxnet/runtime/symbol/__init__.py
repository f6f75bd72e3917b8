"""MXNet symbols that run on several devices: their methods, the user's arguments, and their files."""
