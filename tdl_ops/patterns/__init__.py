"""Patterns of descriptions that the operators of several engines share."""
