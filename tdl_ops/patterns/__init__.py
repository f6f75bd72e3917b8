"""Patterns of descriptions that several engines share."""
