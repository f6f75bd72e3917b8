"""`python -m tofu` and `tofu`: the command line (tofu.command_line.main), if its dependencies are installed."""

from __future__ import annotations

import sys


def run() -> None:
    """Run a command. A failed import, such as MXNet's, is one line on stderr and exit code 1."""
    try:
        from tofu.command_line.main import main
    except ImportError as error:
        sys.exit(f"Error: {error}")
    main(prog_name="python -m tofu" if sys.argv[0].endswith(".py") else None)


if __name__ == "__main__":
    run()
