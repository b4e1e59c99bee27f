"""The active inquiry of a memory hierarchy: what is asked next follows from what was found."""
