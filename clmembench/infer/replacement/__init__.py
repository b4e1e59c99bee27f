"""Replacement policies: what a set keeps under each, and which one explains the hits and misses."""
