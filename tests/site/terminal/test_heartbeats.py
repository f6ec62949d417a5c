"""Heartbeats in the terminal."""

import shlex

from schedules.models import Job
from tests.documented import blocks

PAGE = "docs/how-to/heartbeats.md"


def test_heartbeat_of_the_page_is_added(cronty, settings):
    line = blocks(PAGE, "sh")[0].text.strip()

    ended = cronty(*shlex.split(line)[1:])

    assert ended.code == 0, ended.err
    job = Job.objects.get()
    assert (job.task, job.kwargs, job.heartbeat.slug) == ("heartbeat", {"grace": "15m"}, "backup-of-db1")
    address = f"/ping/{job.heartbeat.ping_id}"
    assert f"Ping address: {settings.CRONTY_URL}{address}" in ended.out
    assert address in cronty("show", str(job.pk)).out
    assert cronty("show", str(job.pk), "--json").json["ping_url"].endswith(address)


def test_address_of_a_new_heartbeat_is_in_the_json(cronty):
    made = cronty("add", "every day at 3am", "heartbeat", "--json").json
    other = cronty("add", "every day at 3am", "notify", "message=Hello", "topic=plants", "--json").json

    assert made["ping_url"].endswith(f"/ping/{Job.objects.get(task='heartbeat').heartbeat.ping_id}")
    assert other["ping_url"] is None
