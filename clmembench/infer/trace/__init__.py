"""Caches and TLBs inferred from traces of accesses."""
