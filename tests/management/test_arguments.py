"""Command-line arguments."""

import pytest

from schedules.management.arguments import host_in_url


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104
        ("::", "[::1]"),
        ("0:0::0", "[::1]"),
        ("", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("fd00::1", "[fd00::1]"),
        ("cronty.example", "cronty.example"),
    ],
)
def test_host_is_formatted_for_a_url(host, written):
    assert host_in_url(host) == written
