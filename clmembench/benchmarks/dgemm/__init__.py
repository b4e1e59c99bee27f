"""The product of two dense matrices."""
