"""Benchmarks in which compute units meet: a chase beside streams."""
