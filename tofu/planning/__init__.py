"""Planning: read the user's settings, and select a plan that the user passed, that is remembered, or that is searched."""
