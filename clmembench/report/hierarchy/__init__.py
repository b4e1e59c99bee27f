"""A memory hierarchy for people and programs: drawing, tree, figures and JSON."""
