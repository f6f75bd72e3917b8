"""`python -m tofu`: a module for each group of commands."""
