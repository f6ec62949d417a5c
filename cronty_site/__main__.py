"""Management commands of an installed Cronty: `python -m cronty_site up`."""

import sys

from schedules.mcp.early import answer_early

if __name__ == "__main__":
    if sys.argv[1:2] == ["mcp_serve"]:
        answer_early(sys.argv[2:])
    # Imported late, because Django takes long to import.
    from cronty_site.startup import run_command

    run_command()
