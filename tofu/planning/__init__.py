"""From what the user asks to a plan: given, remembered or searched; within a memory limit (stage 4 of the pipeline)."""
