"""`python -m bbq_plugin` is `bbq`, also where the command is not on the path."""

from bbq_plugin.cli import main

if __name__ == "__main__":
    main(prog_name="bbq")
