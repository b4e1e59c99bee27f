"""The classic methods of Saavedra 1992 and Wong 2010, and the trace that decides where they contradict each other."""
