"""Build the MXNet graphs that all workers run (execution graphs), and plan their memory."""
