"""Planning: read the user's settings, and select a plan."""
