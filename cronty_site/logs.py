"""Filters and formatters for logging as text or JSON; JSON lines name the run that they belong to.

In an outage, there is one line per second and cause, and no traceback while the database is unavailable.
"""

import json
import logging
import re
import time
from copy import copy
from datetime import UTC, datetime
from typing import Any

from schedules.limits import strip_unprintable
from schedules.secrets.masking import MASK
from schedules.worker.database_errors import outage_in, reason_of
from schedules.worker.log_context import current_run

LOG_SECONDS = 1.0
MAX_CAUSES = 1000
# Addresses that need no login, because they contain a key: Django writes the address of every refused request. A test
# compares them with the URL patterns.
_KEYS = re.compile(
    r"""(/(?:trigger|ping|a|agents/stop|approve|password/new|calendar)/(?!address\b| \()[\s"'<]{0,3})[^\s"']+""",
    re.IGNORECASE,
)


class RepeatFilter(logging.Filter):
    """Passes one warning or error per second and cause; the next line of that cause has the number of the others.

    It uses no lock, because a fork could leave it locked in the child; at worst, two threads both log a line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[Any, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        cause, now = _cause_of(record), time.monotonic()
        logged_at, left_out = self._logged.get(cause, (-LOG_SECONDS, 0))
        if now - logged_at < LOG_SECONDS:
            self._logged[cause] = (logged_at, left_out + 1)
            return False
        record.left_out = left_out
        self._logged[cause] = (now, 0)
        if len(self._logged) > MAX_CAUSES:
            self._logged = {
                cause: entry for cause, entry in self._logged.copy().items() if now - entry[0] < LOG_SECONDS
            }
        return True


class WrongHostFilter(logging.Filter):
    """Turns Django's error about the Host header into a warning that names Cronty's setting, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        host = vars(record)["request"].META.get("HTTP_HOST", "")
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg = (
            "Refused a request for the host %r: use the address in CRONTY_URL, or set CRONTY_URL to this one"
        )
        record.args, record.exc_info = (host[:100],), None
        return True


class LineFormatter(logging.Formatter):
    """Writes the reason of an outage instead of its traceback, and the number of lines that the filter left out.

    Control characters are removed, so that a line is safe to show in a terminal, and so are the keys of addresses.
    """

    def format(self, record: logging.LogRecord) -> str:
        return hide_keys(strip_unprintable(super().format(self.shortened(record))))

    @staticmethod
    def shortened(record: logging.LogRecord) -> logging.LogRecord:
        line = copy(record)
        if outage := outage_in(_error_of(record)):
            line.msg, line.args = f"{record.getMessage().strip()} ({reason_of(outage)})", None
            line.exc_info = line.exc_text = None
        if left_out := getattr(record, "left_out", 0):
            line.msg, line.args = f"{line.getMessage()} ({left_out} more were not logged)", None
        return line


class JsonFormatter(LineFormatter):
    """Writes one JSON object per line: time, level, logger, process, message, and perhaps a run and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.shortened(record)
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": hide_keys(line.getMessage()),
            **current_run.get(),
        }
        # Set by `extra` if the line is about a run of another process.
        if execution := getattr(record, "execution", None):
            entry["execution"] = execution
        if line.exc_info:
            entry["traceback"] = hide_keys(self.formatException(line.exc_info))
        return json.dumps(entry, ensure_ascii=False, default=str)


def hide_keys(text: str) -> str:
    """Mask what makes an address in this text work without a login."""
    return _KEYS.sub(rf"\1{MASK}", text)


def _cause_of(record: logging.LogRecord) -> tuple[Any, ...]:
    if status := getattr(record, "status_code", None):
        # The messages of Django about requests contain their addresses.
        return record.name, status
    if error := _error_of(record):
        return record.name, record.msg, type(error)
    return record.name, record.getMessage()


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None
