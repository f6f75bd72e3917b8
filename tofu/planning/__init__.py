"""Planning: read the user's settings, and select a plan: a plan that was passed, remembered or searched."""
