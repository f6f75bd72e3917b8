"""Compare Tofu's plans with plans made by hand, by the communication in compiled steps."""
