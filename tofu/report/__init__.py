"""Reports: tables, pictures and HTML pages of plans."""
