"""Files of parameters and of optimizer states, in MXNet's formats."""
