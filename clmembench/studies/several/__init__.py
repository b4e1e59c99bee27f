"""The study of what lies between devices, and between NUMA nodes."""
