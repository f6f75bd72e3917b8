"""Test runs that take longer than `make test`."""
