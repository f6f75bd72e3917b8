"""Start the command line: `python -m tofu` or `tofu`."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command in `sys.argv`. If an import fails, print the error and exit with code 1."""
    try:
        from tofu.command_line.main import main
    except ImportError as error:
        sys.exit(f"Error: {error}")
    main(prog_name="python -m tofu" if sys.argv[0].endswith(".py") else None)


if __name__ == "__main__":
    run()
