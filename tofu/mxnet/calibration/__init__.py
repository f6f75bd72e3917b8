"""Calibration: measures the present machine with small models, and describes it for simulations."""
