"""The classic methods, and the trace that decides where they contradict each other."""
