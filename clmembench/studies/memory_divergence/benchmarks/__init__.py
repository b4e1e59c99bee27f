"""Kernels that measure the inputs and errors of the memory divergence model."""
