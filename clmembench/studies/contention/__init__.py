"""What compute units cost each other: latency under load, and lines that they hand over."""
