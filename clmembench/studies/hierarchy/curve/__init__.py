"""The latency curve over working-set sizes: its steps, plateaus and the capacities between them."""
