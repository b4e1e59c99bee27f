"""Fleets: run the devices of many hosts, keep their runs in one store, and find the devices that stand apart."""
