"""The latency patterns P1 to P6 of global memory (Mei & Chu 2015, section 5)."""
