"""Links in notifications: what a tap may open, and from where a file may be fetched."""

import pytest

from schedules.tasks.links import APP_SCHEMES, link_problem
from tests.tasks.builtin.conftest import problems

NOTE = {"message": "Tea", "topic": "home"}
VIEW = {"action": "view", "label": "Open"}


def test_tap_may_open_the_web_and_known_apps():
    for url in [
        "https://example.org/a?b=c#d",
        "HTTP://example.org",
        "http://192.168.1.5/lights",
        "http://nas.local:8080/",
        "mailto:olga@example.org",
        "tel:+49123",
        "sms:+49123",
        "geo:52.5,13.4?q=Berlin",
        "ntfy://ntfy.sh/topic",
        "tg://resolve?domain=a",
        "https://пример.example/",
    ]:
        assert link_problem(url) is None
        assert problems("notify", **NOTE, click=url, actions=[VIEW | {"url": url}]) == []


def test_other_link_is_refused():
    for url in [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "content://media/1",
        "intent://scan/#Intent;scheme=zxing;end",
        "vbscript:x",
        "about:blank",
        "blob:https://a",
        "unknown-app://x",
        "example.org",
        "//example.org",
        "/jobs/",
        "https:",
        "https://",
        "http:///path",
        "mailto:",
        "https://[torn",
        "https://example.org/\r\nX: y",
        "https://example.org/\n",
        "https://exa mple.org",
        "https://a\u202eb.org/",
        "https://a\u200bb.org/",
        "\x01https://a.org",
        "tel:+49\n123",
    ]:
        assert link_problem(url)
        (click,) = problems("notify", **NOTE, click=url)
        assert click.startswith("click: ")
        (button,) = problems("notify", **NOTE, actions=[VIEW | {"url": url}])
        assert button.startswith("actions.0.view.url: ")


@pytest.mark.parametrize("name", ["icon", "attach"])
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[fd00::1]", "0x7f.1", "localhost", "a.localhost."],
)
def test_file_in_a_private_network_is_refused_unless_the_operator_allows_it(name, host, settings):
    url = f"http://{host}/file.png"

    (problem,) = problems("notify", **NOTE, **{name: url})
    assert problem.startswith(f"{name}: ")
    assert "is not a public address" in problem

    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.0/8", "10.0.0.1", "169.254.169.254", "::1", "fd00::1"]
    assert problems("notify", **NOTE, **{name: url}) == []


def test_file_on_a_public_host_is_accepted_without_a_resolver():
    assert problems("notify", **NOTE, icon="https://files.example/a.png") == []


def test_header_of_a_button_is_one_line():
    button = {
        "action": "http",
        "label": "Off",
        "url": "https://example.org/",
        "headers": {"X-Key": "a\r\nb: c"},
    }

    (problem,) = problems("notify", **NOTE, actions=[button])

    assert "must be one line" in problem


def test_schemes_that_run_or_read_something_are_not_among_the_apps():
    assert not APP_SCHEMES & {"intent", "javascript", "data", "file", "content", "shortcuts", "about", "blob"}
