#!/usr/bin/env python
"""Cronty's command line in a checkout."""

from cronty_site.startup import run_command

if __name__ == "__main__":
    run_command()
