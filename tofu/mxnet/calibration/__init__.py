"""Calibration: measure the present machine with small models, and describe it for simulations."""
