"""Probes: laps over lines or pages on a device or a simulation, and what one latency says."""
