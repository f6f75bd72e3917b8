"""Broken files made from good ones, and what reading them does."""
