"""Management commands of an installed Cronty: `python -m cronty_site up`."""

from cronty_site.startup import run_command

if __name__ == "__main__":
    run_command()
