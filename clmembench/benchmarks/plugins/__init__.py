"""Benchmarks of users and of installed packages: their imports are tried first, and messages about failures name them."""
