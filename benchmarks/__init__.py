"""What is measured and shown: `make demo`, and `make bench` for everything that has numbers."""
