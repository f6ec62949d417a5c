import logging
import re
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client

from cronty_site import logins
from tests.clusters import PROJECT
from tests.site.test_accounts import PASSWORD

HOME = "192.0.2.1"
WRONG = "wrong"
FILTER = (PROJECT / "docs/how-to/deploy/fail2ban-filter.conf").read_text()


def login(name: str, address: str = HOME, password: str = WRONG) -> int:
    """Send the login form from an address; return the status."""
    form = {"username": name, "password": password}
    return Client().post("/login/", form, REMOTE_ADDR=address).status_code


def test_name_is_locked_for_guesses_from_many_addresses(owner: User):
    answers = [login("olga", f"198.51.100.{number}") for number in range(logins.PER_NAME + 1)]

    assert answers == [200] * (logins.PER_NAME - 1) + [429, 429]
    assert login("olga", "203.0.113.9", PASSWORD) == 429
    assert login("sam", "203.0.113.9") == 200


def test_person_still_logs_in_from_a_known_address_while_others_guess(owner: User):
    assert login("olga", HOME, PASSWORD) == 302
    for number in range(logins.PER_NAME):
        login("olga", f"198.51.100.{number}")

    assert login("olga", HOME, PASSWORD) == 302


@pytest.mark.parametrize(
    ("address", "neighbour"), [(HOME, HOME), ("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:192.0.2.1", HOME)]
)
def test_address_is_locked_for_guesses_of_many_names(owner: User, address: str, neighbour: str):
    answers = [login(f"name{number}", address) for number in range(logins.PER_ADDRESS)]

    assert answers == [200] * (logins.PER_ADDRESS - 1) + [429]
    assert login("olga", neighbour, PASSWORD) == 429
    assert login("olga", "203.0.113.9", PASSWORD) == 302


def test_locked_login_is_refused_before_the_password_is_checked(owner: User, monkeypatch: pytest.MonkeyPatch):
    for _ in range(5):
        login("olga")
    monkeypatch.setattr(User, "check_password", lambda *args: pytest.fail("the password was checked"))
    before = AccessAttempt.objects.values_list("failures_since_start", "attempt_time").get()

    assert login("olga") == 429
    # The lock is not prolonged, and the row does not grow.
    assert AccessAttempt.objects.values_list("failures_since_start", "attempt_time").get() == before


def test_email_address_and_unknown_name_cost_the_same_work(
    owner: User, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
):
    User.objects.filter(pk=owner.pk).update(email="olga@example.org")
    User.objects.create_user("gone", is_active=False)
    hashed: list[str] = []
    for method in ("check_password", "set_password"):
        monkeypatch.setattr(User, method, lambda user, raw: hashed.append(raw))
    queries = {}
    for name in ("olga", "olga@example.org", "gone", "unknown", "unknown@example.org"):
        with django_assert_max_num_queries(20) as seen:
            assert login(name) == 200
        queries[name] = len(seen)

    assert len(hashed) == len(queries)
    assert len(set(queries.values())) == 1, queries


@pytest.mark.parametrize("name", ["olga@example.org", "unknown", "unknown@example.org"])
def test_locked_name_does_not_reveal_whose_email_address_it_is(owner: User, name: str):
    User.objects.filter(pk=owner.pk).update(email="olga@example.org")

    # Upper case does not help.
    answers = [login(name if number % 2 else name.upper()) for number in range(6)]

    assert answers == [200, 200, 200, 200, 429, 429]
    assert login("olga", HOME, PASSWORD) == 302


@pytest.mark.parametrize("address", ["not-an-ip", "", "fe80::1%eth0", "1" * 300])
def test_malformed_address_does_not_reach_the_database(owner: User, address: str):
    assert login("olga", address) == 200
    assert AccessAttempt.objects.get().ip_address in {None, "fe80::"}


@pytest.mark.parametrize(
    "name",
    [
        "olga",
        "a\n2026-01-01 00:00:00,000 WARNING cronty_site.logins: Login failed from 203.0.113.9, name x",
        'a" from 203.0.113.9, name "b',
        "ö\u2028\x1b[31m",
    ],
)
def test_failed_login_is_one_line_that_fail2ban_reads(
    owner: User, caplog: pytest.LogCaptureFixture, name: str
):
    [pattern] = re.findall(r"^failregex = (.+)$", FILTER, flags=re.MULTILINE)
    caplog.handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    for _ in range(6):
        login(name, "2001:db8::7")

    lines = [line for line in caplog.text.splitlines() if "Login" in line]
    found = [re.match(pattern.replace("<HOST>", r"(?P<host>\S+)"), line) for line in lines]
    assert len(lines) == 6
    assert lines[0].isprintable()
    assert [match and match["host"] for match in found] == ["2001:db8::7"] * 6
    assert "failed" in lines[0]
    assert "refused" in lines[5]
    assert PASSWORD not in caplog.text
