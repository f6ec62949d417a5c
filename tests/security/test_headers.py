"""Cookies, CSRF checks, redirects and hosts; the walks of test_authorization.py look at the headers of every answer."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from tests import databases
from tests.clusters import PROJECT
from tests.forks import python
from tests.security.addresses import every_address
from tests.security.owned_rows import OwnedRows
from tests.security.test_authorization import ask, everything

ADDRESSES = every_address()
Visit = Callable[[str], Client]

# Settings are read once, so the site behind https runs in its own process.
BEHIND_HTTPS = """
import json, sys
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User
from django.test import Client
User.objects.create_user("olga", password="correct horse")
client, host = Client(), {"Host": "cronty.example"}
plain = client.get("/login/", headers=host)
forged = client.get("/login/", headers={**host, "X-Forwarded-Proto": "https"})
form = client.get("/login/", headers=host, secure=True)
inside = client.post("/login/", {"username": "olga", "password": "correct horse"}, headers=host, secure=True)
page = client.get("/", headers=host, secure=True)
cookies = {name: dict(cookie) for answer in (form, inside) for name, cookie in answer.cookies.items()}
assert forged.status_code == 301
print(json.dumps([plain.status_code, plain["Location"], inside.status_code, dict(page.items()), cookies]))
"""


# The key in the address permits the request, and a login means nothing to it.
CARRY_A_KEY = {
    "schedules:ping",
    "schedules:trigger",
    "schedules:answer-link",
    "schedules:approval-link",
    "schedules:stop-link",
}


def test_no_form_is_accepted_without_its_csrf_token(owned: OwnedRows, visit: Visit):
    assert {each.name for each in ADDRESSES if each.is_exempt and not each.is_api} == CARRY_A_KEY
    strict = visit("staff")
    strict.handler.enforce_csrf_checks = True
    before = everything()

    for address in ADDRESSES:
        # The API takes tokens, which no browser sends by itself.
        if address.is_api or address.name in {"schedules:new", "schedules:pause", "login", "admin:login"}:
            answer = ask(strict, "post", address, owned)

            assert answer.status_code in ({401, 404, 405} if address.is_api else {403}), address
    assert everything() == before


def test_form_from_another_origin_is_refused(owned: OwnedRows, visit: Visit):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owned.owner, backend="django.contrib.auth.backends.ModelBackend")
    strict.get("/settings/")
    form = {"csrfmiddlewaretoken": strict.cookies["csrftoken"].value, "timezone": "UTC"}

    foreign = strict.post("/settings/", form, headers={"Origin": "https://evil.example"})
    own = strict.post("/settings/", form)

    assert (foreign.status_code, own.status_code) == (403, 302)


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "///evil.example"],
)
def test_no_form_redirects_to_another_site(owned: OwnedRows, visit: Visit, target: str):
    asked = [
        ("/theme/", {"next": target}),
        (f"/jobs/{owned.job.public_id}/pause/", {"next": target}),
        (f"/login/?next={target}", {"username": "olga", "password": "correct horse"}),
    ]
    for path, form in asked:
        person = "anonymous" if path.startswith("/login") else "owner"

        answer = visit(person).post(path, form)

        assert answer.status_code in {302, 303}
        assert answer["Location"].startswith("/")
        assert "evil" not in answer["Location"]


@pytest.mark.verify
def test_site_behind_https_guards_its_cookies_and_insists_on_https(tmp_path: Path):
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **{"CRONTY_DATA": str(tmp_path), "CRONTY_URL": "https://cronty.example"},
        "CRONTY_HSTS_SECONDS": "3600",
        "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
    }
    (tmp_path / "static").mkdir()
    databases.fill(tmp_path)
    collect = [*python(), str(PROJECT / "manage.py"), "collectstatic", "--noinput"]
    subprocess.run(collect, env=environment, cwd=PROJECT, capture_output=True, check=True)

    done = subprocess.run(
        [*python(), "-c", BEHIND_HTTPS],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    status, location, inside, headers, cookies = json.loads(done.stdout)
    assert (status, location, inside) == (301, "https://cronty.example/login/", 302)
    assert headers["Strict-Transport-Security"] == "max-age=3600"
    assert set(cookies) == {"sessionid", "csrftoken"}
    for cookie in cookies.values():
        assert (cookie["secure"], cookie["httponly"], cookie["samesite"]) == (True, True, "Lax")


def test_unknown_host_is_refused(client: Client, db: None):
    assert client.get("/login/", headers={"Host": "evil.example"}).status_code == 400
