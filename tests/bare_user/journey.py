"""One pass through services, engine and pages for a member; run as a script, it prints `done`."""

import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bare_user.settings"
django.setup()

from datetime import timedelta  # noqa: E402

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from schedules import clock, engine, services  # noqa: E402
from schedules.models import Event, Execution  # noqa: E402
from schedules.result import Ok  # noqa: E402
from schedules.services.installation.setup import ensure_first_user, ensure_system_job  # noqa: E402
from schedules.services.people.profiles import (  # noqa: E402
    SYSTEM_USER,
    find_user,
    profile_of,
    superusers,
)

call_command("migrate", verbosity=0, run_syncdb=True)
member = get_user_model().objects.create(handle="m" * 300)

assert find_user(member.handle) == member
assert ensure_first_user() is None
assert not superusers().exists()
assert ensure_system_job().owner.get_username() == SYSTEM_USER

actor = services.Actor(member, Event.Door.WEB)
made = services.schedule(
    actor,
    name="Read",
    task="prompt",
    kwargs={"prompt": "Read the mail."},
    trigger_type="once",
    run_at=clock.now() + timedelta(hours=1),
)
assert isinstance(made, Ok), made
run = services.run_now(actor, made.value.job.public_id)
assert isinstance(run, Ok), run
cluster = engine.enlist(clock.now())
assert len(engine.claim_runs(cluster.pk, clock.now(), 10)) == 1

issued = services.issue_token(member, name="laptop")
assert isinstance(issued, Ok), issued
token = services.verify_token(issued.value.text)
assert token is not None
assert token.owner == member
assert isinstance(services.revoke_token(member, token.pk), Ok)
assert services.verify_token(issued.value.text) is None

browser = Client(raise_request_exception=True)
browser.force_login(member)
job_page = f"/jobs/{made.value.job.public_id}/"
feed = f"/calendar/{profile_of(member).calendar_key}.ics"
for page in (
    "/",
    job_page,
    "/calendar/",
    feed,
    "/runs/",
    "/inbox/",
    "/connect/",
    "/activity/",
    "/settings/",
    "/notifications/",
):
    assert browser.get(page, headers={"host": "localhost"}).status_code == 200, page
assert Execution.objects.get().owner == member
print("done")  # noqa: T201
