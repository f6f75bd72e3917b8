"""What is measured and shown: `make demo`, and `make bench` for a list of everything that has numbers."""
