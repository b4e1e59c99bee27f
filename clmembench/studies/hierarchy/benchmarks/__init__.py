"""Benchmarks of the hierarchy: laps over chosen addresses, shared storage, the last cache seen from each compute unit."""
