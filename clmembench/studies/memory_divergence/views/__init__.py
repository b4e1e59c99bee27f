"""Predictions and errors of the memory divergence model as text, tables, figures, JSON and TOML."""
