"""Benchmarks that call libraries and programs of others: BLAS, sparse, copies, sums, BabelStream, clpeak."""
