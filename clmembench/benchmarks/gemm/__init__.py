"""The product of two dense matrices in low precision."""
