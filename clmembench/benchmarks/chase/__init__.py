"""Chases of addresses: one lap through any memory space, working sets, and the lines of a last-level cache."""
