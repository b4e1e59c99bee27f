"""Gates: what was measured is held against itself, and a point that fails is `suspect`, with the gate's name and the reason."""
