"""The host: its CPUs, load, sensors and locks, and the interpreters that are started on it."""
