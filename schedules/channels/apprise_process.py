"""The script that sends one message by Apprise: it reads a request as JSON from standard input, and prints the result.

It imports nothing from Cronty: Apprise opens its own connections, past the checks on webhooks, so its process gets
neither the settings nor the database.
"""

import json
import logging
import sys
from io import StringIO
from typing import Any

MISSING = "missing"
MAX_LOG_CHARACTERS = 500


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    try:
        import apprise  # noqa: PLC0415  (optional, and only here)
    except ImportError:
        print(json.dumps({"error": MISSING}))  # noqa: T201  (read by the worker)
        return
    log = StringIO()
    logging.getLogger("apprise").addHandler(logging.StreamHandler(log))
    accepted = [_send(apprise, url, request) for url in request["urls"]]
    print(json.dumps({"accepted": accepted, "log": log.getvalue().strip()[-MAX_LOG_CHARACTERS:]}))  # noqa: T201  (read by the worker)


def _send(apprise: Any, url: str, request: dict[str, Any]) -> bool:
    sender = apprise.Apprise()
    return bool(sender.add(url)) and bool(
        sender.notify(body=request["body"], title=request["title"], notify_type=request["type"])
    )


if __name__ == "__main__":
    main()
