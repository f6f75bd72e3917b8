"""Compare Tofu's plans with plans made by hand, by the communication in XLA's compiled steps."""
