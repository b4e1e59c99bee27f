"""Caches and TLBs inferred from latencies of single accesses that any tool recorded."""
