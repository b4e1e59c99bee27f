"""The product of a sparse matrix and a vector."""
