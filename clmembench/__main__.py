"""`python -m clmembench` is the same as `clmembench`."""

import sys


def main() -> None:
    """The entry point of both. Loading takes a moment, in which Ctrl-C ends it as it does later on: without a traceback."""
    try:
        from clmembench import cli

        cli.main()
    except KeyboardInterrupt:
        print("clmembench: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
