"""Benchmarks in which compute units meet: a chase beside streams, and lines that two units hand to each other."""
