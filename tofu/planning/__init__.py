"""Planning: read the user's settings, and select a plan. The plan is passed by the user, remembered, or searched."""
