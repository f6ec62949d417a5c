"""`cronty` in a checkout: `python -m cronty_site.terminal`."""

import sys

from cronty_site.terminal.group import main

if __name__ == "__main__":
    sys.exit(main())
