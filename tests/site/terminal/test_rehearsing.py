"""The subcommand rehearse."""

import re
import shlex
from datetime import timedelta

import pytest

from schedules import clock
from schedules.models import Job
from tests.clusters import PROJECT
from tests.factories import JobFactory


@pytest.fixture
def slow(owner) -> Job:
    return JobFactory(
        owner=owner,
        name="Slow",
        tags=["home"],
        next_run_at=clock.now() + timedelta(minutes=5),
        last_duration=timedelta(minutes=7),
    )


def test_rehearsal_tells_what_runs_and_what_is_left_out(cronty, slow):
    JobFactory(owner=slow.owner, name="Other")

    told = cronty("rehearse", "--tag", "home", "--to", "in 1 hour", "--json").json

    assert [job["name"] for job in told["jobs"]] == ["Slow"]
    assert told["runs"] + told["left_out"] >= 11
    assert told["jobs"][0]["left_out"][0]["reason"] == "The previous run was still running."
    shown = cronty("rehearse", "--job", "Slow", "--to", "in 1 hour").out
    assert "x The previous run was still running." in shown
    assert "Other" not in shown


def test_rehearsal_names_crowded_minutes(cronty, owner):
    for number in range(10):
        JobFactory(owner=owner, name=f"Job {number}", cron="0 3 * * *")

    shown = cronty("rehearse", "--from", "tomorrow").out

    assert "1 minute in which 10 or more runs start:" in shown


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--to", "yesterday"], 1, "to: Choose an end that is ahead"),
        (["--to", "in 40 days"], 1, "to: Choose at most 31 days."),
        (["--from", "gibberish"], 2, "--from"),
        (["--job", "Nothing"], 3, "Nothing"),
        (["--tag", "a\x1bb"], 2, "--tag: use at most 200 printable characters."),
    ],
)
def test_bad_input_is_refused(cronty, slow, options, code, words):
    refused = cronty("rehearse", *options)

    assert (refused.code, refused.out) == (code, "")
    assert words in refused.err


def test_without_a_cluster_it_says_that_nothing_fires(cronty, slow):
    assert "No cluster is running" in cronty("rehearse").err


def test_command_of_the_page_works(cronty, slow):
    page = (PROJECT / "docs/how-to/agents.md").read_text()
    [command] = re.findall(r"^cronty rehearse .*$", page, flags=re.MULTILINE)

    shown = cronty(*shlex.split(command)[1:])

    assert shown.code == 0
    assert "Slow" in shown.out
