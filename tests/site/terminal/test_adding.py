"""The subcommand add."""

from zoneinfo import ZoneInfo

import pytest

from schedules.models import Job, Profile

NOTIFY = ["notify", "message=Stand up", "topic=my-phone"]


def test_job_is_created_from_a_phrase_and_named_arguments(cronty):
    ended = cronty("add", "every weekday at 8:30", *NOTIFY, "priority=4", "--tag", "home", "--timeout", "5m")

    job = Job.objects.get()
    assert ended.code == 0
    assert "first run" in ended.out
    assert job.kwargs == {"message": "Stand up", "topic": "my-phone", "priority": 4}
    assert (job.name, job.cron, job.timezone) == ("notify: Stand up", "30 8 * * 1-5", "Europe/Berlin")
    assert (job.tags, job.attempts, job.timeout.total_seconds()) == (["home"], 5, 300)


def test_arguments_may_be_given_in_order_and_contain_equals_signs(cronty):
    cronty("add", "0 9 * * *", "webhook", "https://x.example/?a=b", "--name", "Hook")
    cronty("add", "0 9 * * *", "notify", "message=a=b", "topic=my-phone", "--name", "Note")

    assert Job.objects.get(name="Hook").args == ["https://x.example/?a=b"]
    assert Job.objects.get(name="Note").kwargs["message"] == "a=b"


def test_json_is_read_where_it_is_asked_for(cronty):
    cronty("add", "0 9 * * *", "webhook", "url=https://x.example/", 'body:={"a": [1]}', "--name", "Hook")

    assert Job.objects.get().kwargs == {"url": "https://x.example/", "body": {"a": [1]}}


@pytest.mark.parametrize("phrase", ["tomorrow at 9:00", "every 36 hours", "*/5 * * * *"])
def test_every_kind_of_schedule_is_understood(cronty, phrase):
    added = cronty("add", phrase, *NOTIFY, "--json")

    assert added.code == 0
    assert added.json["next_run"]


def test_wrong_input_creates_nothing(cronty):
    for arguments, code in [
        (["every blue moon", *NOTIFY], 2),
        (["every day at 9:00", "nothing"], 1),
        (["every day at 9:00", "prune_history"], 1),
        (["every day at 9:00", "notify", "message=x"], 1),
        (["every day at 9:00", *NOTIFY, "priority=high"], 2),
        (["every day at 9:00", *NOTIFY, "--attempts", "99"], 2),
        (["2001-01-01 09:00", *NOTIFY], 1),
    ]:
        assert cronty("add", *arguments).code == code
        assert not Job.objects.exists()


def test_job_may_be_created_paused(cronty):
    cronty("add", "every day at 9:00", *NOTIFY, "--paused", "--until", "2099-01-01", "--max-runs", "3")

    job = Job.objects.get()
    assert (job.status, job.max_runs) == ("paused", 3)
    # A date as end includes its whole day, in the zone of the job.
    assert job.ends_at.astimezone(ZoneInfo(job.timezone)).isoformat()[:19] == "2099-01-01T23:59:59"


def test_misspelled_name_of_an_argument_is_refused_with_the_nearest(cronty):
    for text in ["mesage=hello", "Message=hello", "mesage:=1"]:
        refused = cronty("add", "0 9 * * *", "notify", text, "topic=my-phone")

        assert refused.code == 1
        assert "Did you mean message=?" in refused.err
        assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["tests.ping"], "tests.ping"),
        (["webhook", "https://x.example/"], "webhook: https://x.example/"),
        (["notify", "message=Tea"], "notify: Tea"),
        (["notify", f"message={'long ' * 40}"], f"notify: {'long ' * 40}"[:79].rstrip() + "…"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_default_name_has_the_task(cronty, owner, arguments, name):
    Profile.objects.update_or_create(user=owner, defaults={"topic": "my-phone"})

    assert cronty("add", "0 9 * * *", *arguments).code == 0

    assert Job.objects.get().name == name


def test_spread_is_set_and_said(cronty):
    added = cronty("add", "every day at 3:00", *NOTIFY, "--spread", "20m")

    assert Job.objects.get().spread.total_seconds() == 1200
    assert "Every day at 03:00, up to 20 minutes later (at 03:" in added.out

    cronty("edit", str(Job.objects.get().pk), "--spread", "0")
    assert Job.objects.get().spread.total_seconds() == 0


def test_job_that_runs_when_the_machine_starts_says_so(cronty):
    ended = cronty("add", "at startup", *NOTIFY, "--name", "Hello")

    assert "When the machine starts · Europe/Berlin · waiting for the next start" in ended.out
    assert Job.objects.get().cron == "@reboot"
    assert "When the machine starts" in cronty("preview", "@reboot").out
    assert cronty("show", "Hello").code == cronty("jobs").code == cronty("next", "Hello").code == 0
    assert "9000" not in cronty("show", "Hello").out + cronty("jobs").out + cronty("next", "Hello").out


RUNNER = '[notes]\ndescription = "x"\nkind = "claude"\ngrantable = ["Bash(git:*)"]\nallow = ["everyone"]\n'
PROMPT = ("add", "0 9 * * *", "prompt", "prompt=Push it", "runner=notes")


def test_permissions_of_a_prompt_are_given_and_shown(cronty, use_runners):
    use_runners(RUNNER)

    added = cronty(*PROMPT, "--grant", "Bash(git push:*)", "--grant", "Bash(git tag:*)", "--name", "Push")

    assert added.code == 0
    assert Job.objects.get().grants == ["Bash(git push:*)", "Bash(git tag:*)"]
    assert "Bash(git push:*)" in cronty("show", "Push").out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((*PROMPT, "--grant", "WebFetch"), "does not allow the permission WebFetch"),
        ((*PROMPT, "--grant", "Bash(;)("), "this is no rule"),
        (("add", "0 9 * * *", *NOTIFY, "--grant", "Bash"), "Only prompts have permissions"),
    ],
)
def test_permissions_that_cannot_be_given_are_refused(cronty, use_runners, words, problem):
    use_runners(RUNNER)

    refused = cronty(*words)

    assert (refused.code, Job.objects.count()) == (1, 0)
    assert problem in refused.err
