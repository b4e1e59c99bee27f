"""Plans: which points are measured, and in which order."""
