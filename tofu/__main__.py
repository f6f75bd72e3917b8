"""`python -m tofu`: the command line (tofu.command_line.main)."""

from tofu.command_line.main import main

if __name__ == "__main__":
    main(prog_name="python -m tofu")
