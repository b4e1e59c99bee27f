"""Transfers between host and device, and memory that both share."""
