"""Benchmarks of the hierarchy: laps over chosen addresses, shared storage, the map of the last cache by compute unit."""
