"""Plans from users' requests: passed, remembered or searched, and within a memory limit."""
