"""Benchmarks of the case study MNF: its steps as kernels, the whole rotation, and the host by NumPy."""
