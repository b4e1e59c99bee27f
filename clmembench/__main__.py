"""`python -m clmembench` is the same as `clmembench`."""

from clmembench.cli import main

main()
