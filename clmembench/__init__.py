"""clmembench: characterise any OpenCL device by micro-benchmarks, and say only what was measured."""

__version__ = "0.1.0"
