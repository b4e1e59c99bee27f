"""Values that were not measured here: published and imported results."""
