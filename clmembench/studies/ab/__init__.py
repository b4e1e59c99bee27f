"""Interleaved A/B measurement of two builds, drivers, runtimes or devices."""
