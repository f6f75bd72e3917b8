"""Files of parameters and of optimizer states."""
