"""Creating and editing jobs on the pages."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import escape

from schedules import clock
from schedules.models import Execution, Job
from schedules.tasks import registry
from tests.factories import JobFactory, UserFactory
from tests.web.html import html_of

NOTIFY = {
    "name": "Tea",
    "task": "notify",
    "notify-message": "Ready.",
    "notify-topic": "home",
    "timezone": "Europe/Berlin",
}
DAILY = {"when": "phrase", "phrase": "every day at 9am"}


def post(web: Client, **data: Any) -> Any:
    return web.post("/jobs/new/", NOTIFY | DAILY | data)


WHENS = {
    "phrase": ({"phrase": "every weekday at 8:30"}, {"trigger_type": "cron", "cron": "30 8 * * 1-5"}),
    "cron": ({"phrase": "*/7 * * * *"}, {"trigger_type": "cron", "cron": "*/7 * * * *"}),
    "every": (
        {"when": "every", "every_count": "45", "every_unit": "minutes"},
        {"trigger_type": "interval", "every": timedelta(minutes=45)},
    ),
    "once": ({"when": "once", "run_at": "2030-12-24T18:00"}, {"trigger_type": "once"}),
    "a date as a phrase": ({"phrase": "2030-12-24 18:00"}, {"trigger_type": "once"}),
}


@pytest.mark.parametrize("kind", list(WHENS))
def test_job_is_created_with_each_kind_of_schedule(web: Client, kind: str):
    data, columns = WHENS[kind]

    answer = post(web, **data)

    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.public_id}/"
    assert {name: getattr(job, name) for name in columns} == columns
    assert job.timezone == "Europe/Berlin"


WHATS = {
    "webhook": (
        {"webhook-url": "https://example.com/", "webhook-body": '{"a": 1}'},
        {"url": "https://example.com/", "method": "POST", "body": {"a": 1}},
    ),
    "prompt": ({"prompt-prompt": "Hello"}, {"prompt": "Hello"}),
    "tests.ping": ({"tests.ping-*": "[1, 2]", "tests.ping-fail": "on"}, {"fail": True}),
}


@pytest.mark.parametrize("task", list(WHATS))
def test_job_is_created_with_each_task(web: Client, task: str):
    data, kwargs = WHATS[task]

    post(web, task=task, **{"webhook-method": "POST"} if task == "webhook" else {}, **data)

    job = Job.objects.get()
    assert (job.task, job.kwargs) == (task, kwargs)


BAD = {
    "no name": ({"name": ""}, "name", "Enter a name."),
    "a phrase nobody understands": (
        {"phrase": "every blue moon"},
        "phrase",
        "Couldn't read that schedule",
    ),
    "a moment that is past": ({"when": "once", "run_at": "2020-01-01T00:00"}, "run_at", "past"),
    "an interval of nothing": ({"when": "every", "every_count": "0"}, "every_count", "Enter 1 or more."),
    "a zone that is none": ({"timezone": "Mars/Olympus"}, "timezone", "Unknown time zone"),
    "no topic": ({"notify-topic": ""}, "notify-topic", "Enter a topic or a channel."),
    "broken JSON": (
        {"task": "webhook", "webhook-url": "https://example.com", "webhook-headers": "{"},
        "webhook-headers",
        "This isn't valid JSON: it ends too early.",
    ),
    "a length nobody understands": ({"backoff": "soon"}, "backoff", "Couldn't read that duration."),
    "a system task": ({"task": "prune_history"}, "task", "Choose one of these."),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_error_is_shown_beside_its_field_and_input_is_kept(web: Client, kind: str):
    data, field, words = BAD[kind]

    answer = post(web, **data)

    form = answer.context["form"]
    assert answer.status_code == 422
    assert words in " ".join(form.errors[field])
    assert f">{escape(' '.join(form.errors[field]))}</p>" in answer.content.decode()
    assert all(form[name].value() == value for name, value in (NOTIFY | DAILY | data).items())
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("is_deleted", "changed"),
    [(False, {"name": "Coffee"}), (True, {"then": "paused"})],
    ids=["kept", "deleted"],
)
def test_changed_form_that_is_sent_again_offers_to_create_another_job(
    web: Client, changed: dict[str, str], is_deleted: bool
):
    post(web, idempotency_key="abc")
    if is_deleted:
        web.post(f"/jobs/{Job.objects.get().public_id}/delete/")

    refused = post(web, idempotency_key="abc", **changed)

    form = refused.context["form"]
    assert refused.status_code == 409
    words = "You have already created a job with this form. Send it again to create another."
    assert f"<p>{words}</p>" in refused.content.decode()
    assert form["name"].value() == changed.get("name", "Tea")
    again = post(web, **changed, idempotency_key=form["idempotency_key"].value())
    assert again.status_code == 302
    assert Job.objects.count() == 2


def test_similar_job_is_pointed_out(web: Client):
    post(web)

    assert "Tea does the same" in web.post("/jobs/new/", NOTIFY | DAILY, follow=True).content.decode()


def test_test_run_saves_the_job_as_paused_and_runs_it_once(web: Client):
    answer = post(web, then="test")

    run = Execution.objects.get()
    assert answer["Location"] == f"/runs/{run.pk}/"
    assert run.job is not None
    assert run.job.status == "paused"


def test_zone_of_the_browser_is_used_only_if_the_user_has_none(web: Client):
    nobody = UserFactory(profile=None)
    fresh = Client()
    fresh.force_login(nobody, backend="django.contrib.auth.backends.ModelBackend")

    assert "data-browser-zone" in fresh.get("/jobs/new/").content.decode()
    assert "data-browser-zone" not in web.get("/jobs/new/").content.decode()


@pytest.mark.parametrize("minutes", [7])
def test_preview_of_an_edit_keeps_the_start_as_saving_does(
    web: Client, owner: User, time_machine: Any, minutes: int
):
    time_machine.move_to(clock.now(), tick=False)
    job = JobFactory(owner=owner, interval=True)
    asked = {"when": "every", "every_count": str(minutes), "every_unit": "minutes", "timezone": "UTC"}

    typed = filled_in(web, job) | asked

    shown = web.get("/jobs/preview/", typed | {"job": job.public_id}).context["preview"]
    time_machine.shift(2)
    web.post(f"/jobs/{job.public_id}/edit/", typed)

    job.refresh_from_db()
    assert job.next_run_at is not None
    assert abs(job.next_run_at - shown.next_runs[0]) < timedelta(seconds=1)


@time_machine.travel("2026-11-15T10:03:21.5Z", tick=False)
@pytest.mark.parametrize(
    ("count", "unit", "start", "first"),
    [
        ("15", "minutes", "", "10:15:00"),
        ("15", "minutes", "2026-11-15T10:10", "10:10:00"),
        ("2", "hours", "2026-11-14T09:30", "11:30:00"),
    ],
)
def test_tab_every_runs_at_round_times_or_from_its_start(
    web: Client, count: str, unit: str, start: str, first: str
):
    post(web, when="every", every_count=count, every_unit=unit, every_start=start, timezone="UTC")

    job = Job.objects.get()
    assert f"{job.next_run_at:%H:%M:%S}" == first
    shown = web.get(f"/jobs/{job.public_id}/edit/").context["form"]
    assert shown["every_start"].value() == f"{job.anchor_at:%Y-%m-%dT%H:%M}"


def test_what_runs_once_has_no_end(web: Client):
    post(web, when="once", run_at="2030-01-01T09:00", ends_at="2029-01-01T09:00", max_runs="-3")

    job = Job.objects.get()
    assert (job.ends_at, job.max_runs) == (None, None)


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
@pytest.mark.parametrize(
    "when", [{"when": "once", "run_at": "2026-11-15T10:59"}, {"phrase": "2026-11-15 10:59"}]
)
def test_error_about_a_past_moment_uses_the_zone_of_the_job(web: Client, when: dict[str, str]):
    words = "That time is in the past (now 2026-11-15 11:00:00 Europe/Berlin)."

    assert words in web.get("/jobs/preview/", {"timezone": "Europe/Berlin"} | when).content.decode()
    assert words in post(web, **when).content.decode()


@pytest.mark.parametrize(
    "query", [{"when": "every", "every_count": "x"}, {"phrase": "\x00", "timezone": "UTC"}]
)
def test_preview_of_invalid_input_shows_an_error(web: Client, query: dict[str, str]):
    answer = web.get("/jobs/preview/", query)

    assert answer.status_code == 200
    assert 'class="err"' in answer.content.decode()


def filled_in(web: Client, job: Job) -> dict[str, Any]:
    """Return the data that the unchanged edit form would send."""
    form = web.get(f"/jobs/{job.public_id}/edit/").context["form"]
    return {name: form[name].value() for name in form.fields if form[name].value() not in (None, False)}


@pytest.mark.parametrize("trait", ["plain", "interval", "once"])
def test_saving_an_unchanged_job_changes_nothing(web: Client, owner: User, trait: str):
    traits = {} if trait == "plain" else {trait: True}
    job = JobFactory(
        owner=owner,
        args=[1, 2],
        kwargs={"fail": True},
        name=" Tea ",
        tags=["a,b", " c "],
        timeout=timedelta(minutes=90),
        ends_at=clock.now() + timedelta(days=1),
        **traits,
    )

    answer = web.post(f"/jobs/{job.public_id}/edit/", filled_in(web, job))

    assert answer.status_code == 302
    job.refresh_from_db()
    assert job.revision == 1


RUN_AT = datetime(2030, 12, 24, 18, 0, 0, 987_654, tzinfo=UTC)
ENDS_AT = datetime(2031, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "changed"),
    [
        pytest.param({"name": "New"}, {}, id="name"),
        pytest.param(
            {"ends_at": "2031-01-01T13:00:00"},
            {"ends_at": datetime(2031, 1, 1, 13, 0, tzinfo=UTC)},
            id="end",
        ),
        pytest.param(
            {"timezone": "Europe/Berlin"},
            {
                "run_at": datetime(2030, 12, 24, 17, 0, tzinfo=UTC),
                "ends_at": datetime(2031, 1, 1, 11, 0, tzinfo=UTC),
            },
            id="zone",
        ),
    ],
)
def test_edit_keeps_microseconds_of_unchanged_moments(
    web: Client, owner: User, typed: dict[str, str], changed: dict[str, Any]
):
    job = JobFactory(owner=owner, once=True, run_at=RUN_AT, ends_at=ENDS_AT)

    web.post(f"/jobs/{job.public_id}/edit/", filled_in(web, job) | typed)

    job.refresh_from_db()
    assert job.revision == 2
    stored = {"run_at": RUN_AT, "ends_at": ENDS_AT, "max_runs": None} | changed
    assert {name: getattr(job, name) for name in stored} == stored


CHOSEN = {
    "attempts": 7,
    "backoff": timedelta(minutes=3),
    "timeout": timedelta(minutes=10),
    "pause_after_failures": 4,
}


def test_emptied_policy_gets_the_default_that_the_form_shows(web: Client, owner: User):
    kwargs = {"url": "https://example.com/"}
    job = JobFactory(owner=owner, task="webhook", kwargs=kwargs, **CHOSEN)

    web.post(f"/jobs/{job.public_id}/edit/", filled_in(web, job) | dict.fromkeys(CHOSEN, ""))

    job.refresh_from_db()
    task = registry.get("webhook")
    assert task is not None
    assert {name: getattr(job, name) for name in CHOSEN} == {
        "attempts": task.attempts,
        "backoff": timedelta(seconds=10),
        "timeout": task.timeout,
        "pause_after_failures": 10,
    }


@pytest.mark.parametrize("keeps_mine", [True, False])
def test_conflict_is_resolved_by_keeping_either_version(web: Client, owner: User, keeps_mine: bool):
    job = JobFactory(owner=owner)
    address, mine = f"/jobs/{job.public_id}/edit/", filled_in(web, job) | {"name": "Mine"}
    web.post(address, mine | {"name": "Theirs"})

    asked = web.post(address, mine)
    form = asked.context["form"]
    if keeps_mine:
        web.post(address, {name: form[name].value() for name in mine})

    job.refresh_from_db()
    assert job.name == ("Mine" if keeps_mine else "Theirs")
    assert f'<a class="btn" href="{address}">Take theirs</a>' in asked.content.decode()
    assert web.get(address).context["form"]["name"].value() == job.name


def test_problems_are_counted_with_links_to_their_fields(web: Client):
    page = html_of(post(web, name="", phrase="", **{"notify-message": ""}))

    assert "<b>3 problems to fix:</b>" in page
    for link in (
        '<a href="#id_name">Name</a>',
        '<a href="#id_phrase">Schedule</a>',
        '<a href="#id_notify-message">Message</a>',
    ):
        assert link in page
    assert '<div class="errbox" role="alert" tabindex="-1" autofocus>' in page
    assert 'id="id_notify-message"' in page


def test_headers_are_typed_in_rows(web: Client):
    rows = {
        "webhook-headers.name": ["X-Api-Key", "Accept: text/plain", ""],
        "webhook-headers.value": ["abc", "", ""],
    }

    post(web, task="webhook", **{"webhook-url": "https://example.com/", "webhook-method": "POST"}, **rows)

    assert Job.objects.get().kwargs["headers"] == {"X-Api-Key": "abc", "Accept": "text/plain"}


def test_text_that_is_almost_json_is_sent_as_text_with_a_remark(web: Client):
    hook = {"task": "webhook", "webhook-url": "https://example.com/", "webhook-method": "POST"}
    almost, fine = {"webhook-body": '{"a": 1,}'}, {"webhook-body": '{"a": 1}', "name": "Fine"}

    page = web.post("/jobs/new/", NOTIFY | DAILY | hook | almost, follow=True).content.decode()
    other = web.post("/jobs/new/", NOTIFY | DAILY | hook | fine, follow=True).content.decode()

    assert Job.objects.get(name="Tea").kwargs["body"] == '{"a": 1,}'
    words = "Body looks like JSON, but is sent as plain text: remove the comma before } in line 1."
    assert words in page
    assert "looks like JSON" not in other


def test_ended_job_cannot_be_edited_but_can_be_copied(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Done", ended=True)

    answer = web.get(f"/jobs/{job.public_id}/edit/", follow=True)
    copy = web.get(f"/jobs/new/?copy={job.public_id}")

    assert escape("Done has finished and can't be edited.") in answer.content.decode()
    assert copy.context["form"]["name"].value() == "Done (copy)"


def test_name_that_looks_like_another_is_pointed_out(web: Client, owner: User):
    web.post("/jobs/new/", NOTIFY | DAILY | {"name": "Tea"})
    other = JobFactory(owner=owner, name="Coffee")

    edited = web.post(
        f"/jobs/{other.public_id}/edit/", filled_in(web, other) | {"name": "Te\u0430"}, follow=True
    )
    made = web.post("/jobs/new/", NOTIFY | DAILY | {"name": "T\u0435a"}, follow=True)

    for answer in (edited, made):
        assert "The name looks like that of another job, Te" in answer.content.decode()


HOOK = {
    "name": "Hook",
    "task": "webhook",
    "webhook-url": "https://example.com/",
    "webhook-method": "POST",
    "webhook-headers": '{"Authorization": "••••••"}',
    "timezone": "UTC",
}


def test_secret_that_the_job_cannot_use_is_pointed_out(web: Client, owner: User):
    hook = HOOK | DAILY | {"webhook-headers": '{"Authorization": "Bearer ${secret:NOPE}"}'}

    made = html_of(web.post("/jobs/new/", hook, follow=True))
    job = Job.objects.get()
    edited = html_of(
        web.post(f"/jobs/{job.public_id}/edit/", filled_in(web, job) | {"name": "New"}, follow=True)
    )

    for page in (made, edited):
        assert "NOPE is not among your secrets." in page
        assert '<a href="/settings/secrets/">Secrets</a>' in page


def test_form_masks_secrets_and_keeps_them(web: Client, owner: User):
    kwargs = {"url": "https://example.com/", "headers": {"Authorization": "hush"}}
    job = JobFactory(owner=owner, task="webhook", kwargs=kwargs)
    page = f"/jobs/{job.public_id}/edit/"

    shown = web.get(page).content.decode()
    saved = web.post(page, HOOK | DAILY | {"webhook-body": "hello"})

    assert "hush" not in shown
    assert 'value="Authorization"' in shown
    assert 'value="••••••"' in shown
    assert saved.status_code == 302
    job.refresh_from_db()
    assert job.kwargs["headers"] == {"Authorization": "hush"}
    assert job.kwargs["body"] == "hello"


def test_form_asks_for_secrets_again_when_the_address_changes(web: Client, owner: User):
    kwargs = {"url": "https://example.com/", "headers": {"Authorization": "hush"}}
    job = JobFactory(owner=owner, task="webhook", kwargs=kwargs)

    answer = web.post(f"/jobs/{job.public_id}/edit/", HOOK | DAILY | {"webhook-url": "https://evil.example/"})

    assert answer.status_code == 422
    assert "Enter Authorization again" in str(answer.context["form"].errors["webhook-headers"])
    job.refresh_from_db()
    assert job.kwargs == kwargs


def test_copy_of_a_job_needs_its_secrets_again(web: Client, owner: User):
    kwargs = {"url": "https://example.com/", "headers": {"Authorization": "hush"}}
    job = JobFactory(owner=owner, task="webhook", kwargs=kwargs)

    shown = web.get(f"/jobs/new/?copy={job.public_id}").content.decode()
    answer = web.post("/jobs/new/", HOOK | DAILY)

    assert "hush" not in shown
    assert answer.status_code == 422
    assert "Enter the real value of Authorization." in str(answer.context["form"].errors["webhook-headers"])


def test_job_whose_task_is_not_installed_can_be_renamed(web: Client, owner: User):
    job = JobFactory(owner=owner, task="tests.gone", args=[1], kwargs={"a": "b"})
    page = f"/jobs/{job.public_id}/edit/"

    shown = web.get(page).content.decode()
    web.post(page, filled_in(web, job) | {"name": "Renamed"})

    assert "tests.gone (not installed)" in shown
    job.refresh_from_db()
    assert (job.name, job.task, job.args, job.kwargs) == ("Renamed", "tests.gone", [1], {"a": "b"})


CALENDAR = {
    "every 2 weeks": (14, "days", "2026-11-02T09:00+01:00"),
    "every 3 months": (90, "months", "2026-11-01T09:00+01:00"),
    "every month on the 31st": (30, "months", "2026-10-31T09:00+01:00"),
    "every day": (1, "days", "2026-11-15T18:00:30+01:00"),
}


def job_on_the_wall_clock(owner: User, kind: str) -> Job:
    days, unit, start = CALENDAR[kind]
    return JobFactory(
        owner=owner,
        interval=True,
        every=timedelta(days=days),
        calendar_unit=unit,
        anchor_at=datetime.fromisoformat(start),
        timezone="Europe/Berlin",
    )


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
@pytest.mark.parametrize("kind", list(CALENDAR))
def test_copy_keeps_an_interval_on_the_wall_clock(web: Client, owner: User, kind: str):
    job = job_on_the_wall_clock(owner, kind)

    page = web.get(f"/jobs/new/?copy={job.public_id}")
    form = page.context["form"]
    shown = {name: form[name].value() for name in ("when", "phrase", "every_count", "every_unit")}
    post(web, name="Copy", **{name: value for name, value in shown.items() if value})

    copied = Job.objects.get(name="Copy")
    assert copied.trigger == job.trigger
    assert page.context["preview"].next_runs[0] == copied.next_run_at == job.next_slot(clock.now())


def test_edit_replaces_an_interval_on_the_wall_clock_by_elapsed_time(web: Client, owner: User):
    job = job_on_the_wall_clock(owner, "every 3 months")
    asked = {"when": "every", "every_count": "90", "every_unit": "days"}

    preview = web.get("/jobs/preview/", asked | {"timezone": "UTC", "job": job.public_id}).context["preview"]
    web.post(f"/jobs/{job.public_id}/edit/", filled_in(web, job) | asked)

    job.refresh_from_db()
    assert (job.every, job.calendar_unit) == (timedelta(days=90), "")
    assert (preview.description, preview.next_runs[0]) == ("Every 90 days", job.next_run_at)


def test_job_that_runs_when_the_machine_starts_is_previewed_created_and_shown(web: Client):
    preview = web.get("/jobs/preview/", {"when": "phrase", "phrase": "at startup", "timezone": "UTC"})
    assert "When the machine starts" in preview.content.decode()
    assert "No upcoming runs" not in preview.content.decode()

    post(web, phrase="@reboot")

    job = Job.objects.get()
    shown = [
        f"/jobs/{job.public_id}/",
        f"/jobs/{job.public_id}/edit/",
        "/",
        "/jobs/",
        "/calendar/",
        "/notifications/",
    ]
    pages = {path: " ".join(web.get(path, follow=True).content.decode().split()) for path in shown}
    assert "It waits for the next start." in pages[f"/jobs/{job.public_id}/"]
    assert not [path for path, text in pages.items() if "9000" in text]
    assert 'value="when the machine starts"' in pages[f"/jobs/{job.public_id}/edit/"]
