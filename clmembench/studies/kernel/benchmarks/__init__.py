"""Benchmarks of the study `kernel`."""
