"""Tables, pictures and pages of plans."""
