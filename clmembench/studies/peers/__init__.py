"""Libraries and programs of others, measured on the same problems as our benchmarks."""
