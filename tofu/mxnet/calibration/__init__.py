"""Calibration: the machine at hand as a description for simulations, measured with small models."""
