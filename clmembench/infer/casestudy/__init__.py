"""Gains of the optimisations of a case study."""
