"""`python -m headrace`: the command line."""

from headrace.cli.main import run

if __name__ == "__main__":
    run()
