"""The log during an outage: one line a second per cause."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from functools import partial
from io import StringIO
from logging.config import DictConfigurator
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import URLResolver
from django.urls.converters import IntConverter
from django.utils.log import log_response

from cronty_site import logs, urls
from cronty_site.logs import JsonFormatter, LineFormatter, RepeatFilter
from schedules.secrets.masking import MASK
from schedules.tasks.signed_links import approval_token
from schedules.web.pings.limits import PingLimits
from schedules.web.views import triggers
from schedules.worker.log_context import current_run
from tests.clusters import PROJECT
from tests.factories import ApprovalFactory

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


# Parts of addresses that help nobody without a login or a token.
PUBLIC = {
    *("app_label", "client_id", "content_type_id", "id", "object_id", "url"),
    *("calendar", "channel", "delivery", "job", "job_id", "name", "runner"),
    # The name of a secret, not its value.
    "secret",
}
KEY = "1.QEcrwOgv7E-abc_123~x:zTBcw"


def addresses(patterns: Sequence[Any], before: str = "/") -> Iterator[tuple[str, set[str]]]:
    """Yield each address of the site with the names of its parts, with a key in the place of each."""
    for pattern in patterns:
        route = before + re.sub(r"<(?:\w+:)?\w+>", KEY, str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, route)
        else:
            yield (
                route,
                {
                    name
                    for name, converter in pattern.pattern.converters.items()
                    if not isinstance(converter, IntConverter)
                },
            )


SECRET = sorted(
    route for route, names in addresses([*urls.urlpatterns, *urls.password_reset]) if not names <= PUBLIC
)


@pytest.fixture(params=["text", "json"])
def written(request):
    """Everything that is logged meanwhile, without exception, in the product's format."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    formatters = settings.LOGGING["formatters"]
    handler.setFormatter(DictConfigurator(settings.LOGGING).configure_formatter(formatters[request.param]))
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    level = access.level
    root.addHandler(handler)
    access.setLevel(logging.INFO)
    yield stream
    access.setLevel(level)
    root.removeHandler(handler)


def test_addresses_with_keys_are_the_known_ones():
    assert {route.partition(KEY)[0] for route in SECRET} == {
        *("/a/", "/agents/stop/", "/approve/", "/calendar/", "/password/new/", "/ping/", "/trigger/"),
    }


def test_no_line_has_the_key_of_an_address(written):
    for route in SECRET:
        for status in (400, 404, 405, 409, 413, 422, 429, 500):
            request, answer = RequestFactory().post(f"{route}?wait=1"), HttpResponse(status=status)
            log_response("Refused: %s", request.path, response=answer, request=request)
        logging.getLogger("uvicorn.access").info(
            '%s - "%s %s" %d', "127.0.0.1", "POST", f"{route}?wait=1", 404
        )
        for typed in (route.replace(KEY, f" {KEY}", 1), route.replace(KEY, f"'{KEY}", 1)):
            log.warning("Not Found: %s", typed)
        try:
            raise ValueError(f"https://cronty.example{route}")
        except ValueError:
            log.exception("It broke at %s", {"url": route})

    assert KEY not in written.getvalue()
    assert written.getvalue().count(MASK) >= len(SECRET) * 11


@pytest.mark.django_db
def test_refused_requests_leave_no_key_in_the_log(written, settings, monkeypatch):
    monkeypatch.setattr(triggers, "limits", PingLimits("CRONTY_TRIGGERS_PER_MINUTE"))
    settings.CRONTY_TRIGGERS_PER_MINUTE = 3
    approval = ApprovalFactory()
    approve = f"/approve/{approval_token(approval.pk, approval.digest)}/"
    client, statuses = Client(raise_request_exception=False), set()
    for send in (
        lambda: client.get(f"/calendar/{KEY}.ics", headers={"host": "other.example"}),
        lambda: client.post(approve, {"answer": "once", "seen": "old"}),
        lambda: client.put(approve),
        *(partial(client.post, f"/trigger/{KEY}") for _ in range(4)),
        lambda: client.post(f"/trigger/x{KEY}?wait=x"),
        lambda: client.post(f"/trigger/x{KEY}", "x" * 2_000_000, content_type="text/plain"),
        *(partial(client.get, route) for route in SECRET),
        *(partial(client.put, route) for route in SECRET),
    ):
        statuses.add(send().status_code)

    assert statuses >= {400, 404, 405, 409, 413, 422, 429}
    assert KEY not in written.getvalue()
    assert approve.strip("/").rpartition("/")[2] not in written.getvalue()


def test_page_that_has_no_key_is_named_whole(written):
    line = "Not Found: /jobs/job_1_2/ /calendar/address/ /metrics /calendar/ (1 more)"
    log.warning(line)

    assert line in written.getvalue()


def test_no_logger_of_django_has_a_handler_of_its_own():
    """Those of Django write addresses with their keys."""
    for name in ("django", "django.server", "django.request"):
        logger = logging.getLogger(name)
        assert (logger.handlers, logger.propagate) == ([], True), name
