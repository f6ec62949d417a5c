"""The log during an outage: one line a second per cause."""

import json
import logging
from io import StringIO

import pytest
from django.conf import settings
from django.db import OperationalError

from cronty_site import logs
from cronty_site.logs import JsonFormatter, LineFormatter, RepeatFilter
from schedules.worker.log_context import current_run
from tests.clusters import PROJECT

log = logging.getLogger("tests.logs")


@pytest.fixture
def output(monkeypatch):
    """The text that a handler with the product's filter and formatter writes."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RepeatFilter())
    handler.setFormatter(LineFormatter("%(levelname)s %(name)s: %(message)s"))
    requests = logging.getLogger("django.request")
    for logger in (log, requests):
        logger.addHandler(handler)
        monkeypatch.setattr(logger, "propagate", False)
    yield stream
    for logger in (log, requests):
        logger.removeHandler(handler)


@pytest.fixture
def ticks(monkeypatch):
    """A monotonic clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    return now


def fail(times=1, error=OperationalError):
    for _ in range(times):
        try:
            raise error("connection refused\n\tIs the server running?")
        except error:
            log.warning("Could not look for work", exc_info=True)


def test_one_line_a_second_is_logged_with_the_reason_and_the_count_of_the_others(output, ticks):
    for tenth in range(25):
        ticks[0] = 100 + tenth / 10
        fail(10)

    reason = "WARNING tests.logs: Could not look for work (connection refused Is the server running?)"
    assert output.getvalue().splitlines() == [
        reason,
        f"{reason} (99 more were not logged)",
        f"{reason} (99 more were not logged)",
    ]


def test_error_that_is_no_outage_keeps_its_traceback(output, ticks):
    fail(2, ValueError)

    assert output.getvalue().count("Traceback") == 1


def test_line_has_nothing_that_a_terminal_obeys(output):
    try:
        raise ValueError("\x1b[2J\x9b31m\u202eb")
    except ValueError:
        log.warning("Task said %s", "\x1b]0;owned\x07a", exc_info=True)

    text = output.getvalue()
    assert text.startswith("WARNING tests.logs: Task said ]0;owneda\nTraceback")
    assert text.endswith("\nValueError: [2J31mb\n")


def test_outage_behind_another_error_is_recognized(output, ticks):
    try:
        raise ExceptionGroup("unhandled errors", [OperationalError("connection refused")])
    except ExceptionGroup:
        log.exception("Error in a tool\n")

    assert output.getvalue() == "ERROR tests.logs: Error in a tool (connection refused)\n"


def test_requests_that_fail_alike_are_one_cause_whatever_their_address(output, ticks):
    for number in range(5):
        for status in (500, 404):
            logging.getLogger("django.request").error(
                "%s: %s", "Failed", f"/{number}", extra={"status_code": status}
            )

    assert output.getvalue().splitlines() == ["ERROR django.request: Failed: /0"] * 2


def test_different_warnings_and_all_information_pass(output, ticks):
    log.setLevel(logging.INFO)
    for name in ("web", "qcluster"):
        log.warning("%s ended", name)
    for _ in range(3):
        log.info("Started")

    assert len(output.getvalue().splitlines()) == 5


def test_causes_are_forgotten(output, ticks, monkeypatch):
    monkeypatch.setattr(logs, "MAX_CAUSES", 10)
    [repeats] = [item for handler in log.handlers for item in handler.filters]
    for number in range(100):
        ticks[0] += 1
        log.warning("Number %s", number)

    assert len(repeats._logged) <= 10


def test_product_writes_its_log_this_way():
    handler = settings.LOGGING["handlers"]["stderr"]

    assert handler["filters"] == ["repeats"]
    assert settings.LOGGING["formatters"][handler["formatter"]]["class"] == "cronty_site.logs.LineFormatter"


@pytest.fixture
def entries(output):
    """Return what was logged, in the JSON format."""
    log.handlers[0].setFormatter(JsonFormatter())
    return lambda: [json.loads(line) for line in output.getvalue().splitlines()]


def test_json_line_names_the_run_it_belongs_to(entries):
    token = current_run.set({"execution": 7, "job": "job_x"})
    log.warning("Half\nof %s", {"it"})
    current_run.reset(token)
    log.warning("About another run", extra={"execution": 8})
    log.warning("About no run")

    inside, about, outside = entries()
    assert (inside["message"], inside["level"], inside["logger"]) == (
        "Half\nof {'it'}",
        "WARNING",
        "tests.logs",
    )
    assert (inside["execution"], inside["job"]) == (7, "job_x")
    assert about["execution"] == 8
    assert "execution" not in outside
    assert outside["time"].endswith("+00:00")


def test_line_of_the_page_has_the_keys_of_a_real_one(entries):
    page = (PROJECT / "docs/how-to/monitoring.md").read_text()
    shown = json.loads(page.split("```json\n")[1].split("```")[0])

    token = current_run.set({"execution": 812, "job": "job_x7", "task": "report", "attempt": 1})
    log.warning("No orders")
    current_run.reset(token)

    assert list(shown) == list(entries()[0])


def test_json_line_has_a_traceback_but_not_that_of_an_outage(entries):
    fail(error=ValueError)
    fail()

    broken, away = entries()
    assert "ValueError: connection refused" in broken["traceback"]
    assert "traceback" not in away
    assert away["message"] == "Could not look for work (connection refused Is the server running?)"


def test_wrong_host_is_one_warning_that_names_the_setting(client, caplog):
    answer = client.get("/healthz", headers={"host": "other.example"})

    assert answer.status_code == 400
    [line] = [record for record in caplog.records if record.name == "django.security.DisallowedHost"]
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert "'other.example'" in line.getMessage()
    assert "CRONTY_URL" in line.getMessage()
