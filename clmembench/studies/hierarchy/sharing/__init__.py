"""What shares storage: paths of a compute unit, compute units, and partitions of the last cache."""
