"""Studies: a folder for each question, with everything that only it needs, from its command to its tables."""
