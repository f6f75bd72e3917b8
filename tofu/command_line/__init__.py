"""`python -m tofu`, a file for each group of commands."""
