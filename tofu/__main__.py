"""`python -m tofu`: the command line (tofu.cli)."""

from tofu.cli import main

if __name__ == "__main__":
    main(prog_name="python -m tofu")
