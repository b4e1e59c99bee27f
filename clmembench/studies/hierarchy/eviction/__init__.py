"""Eviction sets: lines of one set of a cache, whatever chooses the set."""
