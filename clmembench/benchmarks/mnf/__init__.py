"""The case study MNF: its steps as kernels, the whole rotation on a device, and on the host by NumPy."""
