"""The machine at hand as a description for simulations, measured by running small models on it."""
