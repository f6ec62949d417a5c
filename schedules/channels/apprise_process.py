"""The process that sends one message by Apprise: it reads JSON from standard input and prints what came of it.

A file of its own without imports of Cronty: Apprise opens connections of its own, past the guard of webhooks, so it gets
neither the settings nor the database.
"""

import json
import logging
import sys
from io import StringIO
from typing import Any

MISSING = "missing"
# All that is kept of what Apprise has logged.
SAID_CHARACTERS = 500


def main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)
    try:
        import apprise  # noqa: PLC0415  (optional, and only here)
    except ImportError:
        print(json.dumps({"error": MISSING}))  # noqa: T201  (read by the worker)
        return
    log = StringIO()
    logging.getLogger("apprise").addHandler(logging.StreamHandler(log))
    taken = [_send(apprise, url, asked) for url in asked["urls"]]
    print(json.dumps({"taken": taken, "said": log.getvalue().strip()[-SAID_CHARACTERS:]}))  # noqa: T201  (read by the worker)


def _send(apprise: Any, url: str, asked: dict[str, Any]) -> bool:
    one = apprise.Apprise()
    return bool(one.add(url)) and bool(
        one.notify(body=asked["body"], title=asked["title"], notify_type=asked["type"])
    )


if __name__ == "__main__":
    main()
