"""Measure this machine with small models, and describe it for simulations."""
