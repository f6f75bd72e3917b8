"""Build the MXNet symbols that all workers run (execution graphs), and plan their memory."""
