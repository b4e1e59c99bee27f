"""Benchmarks of users and of installed packages: loaded on trial, named when they fail."""
