"""Equations of the memory divergence model and of the models that it is compared with."""
