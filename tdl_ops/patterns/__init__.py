"""Parts of descriptions that several frameworks use."""
