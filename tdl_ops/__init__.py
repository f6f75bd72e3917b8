"""Describe how operators can be split: a folder for each framework, and a file for each family of operators."""
