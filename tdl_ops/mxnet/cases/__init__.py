"""Cases to verify the descriptions with. Each file has the cases for the descriptions in the file of the same name."""
