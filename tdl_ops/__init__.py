"""Operator descriptions: a folder for each engine, a file for each family of operators."""
