"""Whether each optimisation of a case study paid off."""
