"""Heartbeats in the terminal."""

import shlex

from schedules.models import Job
from tests.documented import blocks

PAGE = "docs/how-to/heartbeats.md"


def test_heartbeat_of_the_page_is_added(cronty):
    line = blocks(PAGE, "sh")[0].text.strip()

    ended = cronty(*shlex.split(line)[1:])

    assert ended.code == 0, ended.err
    job = Job.objects.get()
    assert (job.task, job.kwargs, job.heartbeat.slug) == ("heartbeat", {"grace": "15m"}, "backup-of-db1")
