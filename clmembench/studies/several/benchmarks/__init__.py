"""Benchmarks of several devices and of several NUMA nodes."""
