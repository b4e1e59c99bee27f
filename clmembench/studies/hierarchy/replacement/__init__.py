"""Replacement policies: their simulation, their likelihood, and the walks that tell them apart."""
