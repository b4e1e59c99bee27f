"""Tuning: a search for the best configuration of each point."""
