#!/usr/bin/env python
"""Cronty's command line."""

import sys

from django.core.management import execute_from_command_line

from cronty_site.startup import set_up


def main() -> None:
    is_local_server = sys.argv[1:2] == ["mcp_serve"] and "--http" not in sys.argv
    set_up(pages=not is_local_server)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
