"""What a flow through the pages is, and the data of one: a job of each kind and state, few, so that pages are short."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils.crypto import get_random_string

from schedules import clock, engine
from schedules.models import Event, Execution, Job, Profile, Token
from schedules.services import Actor
from schedules.services.people.stored_secrets import set_secret
from schedules.tasks.interface import OutputText
from tests.browser.people import Step
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, TokenFactory
from tests.sink import Sink

PASSWORD = "correct horse"
COMMANDS = """
[disk_space]
description = "Show how full the disk of a folder is."
program = "/bin/df"
arguments = ["-h", "--", "{folder}"]
allow = ["everyone", "agents"]

[disk_space.parameters.folder]
description = "Any folder."
default = "/"
"""
PUSH = {"task": "notify", "kwargs": {"topic": "home-4711", "message": "Time for it!"}}
HOOK = {"task": "webhook", "kwargs": {"url": "https://example.com/hook"}}
ASK = {"task": "prompt", "kwargs": {"prompt": "Summarise my mail."}}
ERROR = "example.com answered 503: Service Unavailable"


@dataclass
class Data:
    """What a flow starts with; its queries read only what belongs to the owner."""

    owner: User
    sink: Sink
    stretch: Job
    backup: Job
    report: Job
    briefing: Job
    disk: Job
    trashed: Job
    failed: Execution
    running: Execution
    token: Token
    links: set[str] = field(default_factory=set)

    def path(self, template: str) -> str:
        """Fill the ids of jobs and runs into a path."""
        return template.format(
            job=f"/jobs/{self.stretch.public_id}",
            hook=f"/jobs/{self.backup.public_id}",
            paused=f"/jobs/{self.report.public_id}",
            failed=f"/runs/{self.failed.pk}",
            running=f"/runs/{self.running.pk}",
        )

    def job(self, name: str = "Stretch") -> Job:
        return Job.objects.get(owner=self.owner, name=name)

    def jobs_called(self, name: str) -> int:
        return Job.objects.kept().filter(owner=self.owner, name=name).count()

    def new_links(self) -> int:
        """Return how many times the link of the calendar has changed, as far as it was looked at."""
        self.links.add(Profile.objects.get(user=self.owner).calendar_key)
        return len(self.links) - 1

    def events(self, verb: str) -> int:
        return Event.objects.filter(owner=self.owner, verb=verb).count()


@dataclass(frozen=True)
class Flow:
    """A start page, steps, and the press that decides; `stored` reads what it changes, which must become `becomes`.

    A second tab that was opened before sends the same form: it reads `stale`, and `stays` is stored afterwards.
    """

    start: str
    steps: tuple[Step, ...]
    send: Step
    seen: str
    """Words on the page afterwards; `finds` is a selector of what only that page has."""
    finds: str = ""
    stored: Callable[[Data], Any] | None = None
    becomes: Any = 1
    stale: str = ""
    stays: Any = None
    resolve: tuple[Step, ...] = ()
    """How the second tab goes on after a conflict; then `resolved` is stored."""
    resolved: Any = None
    keeps: bool = False
    """Whether the browser keeps what was typed after a lost session, as it does for a job."""
    prepare: Callable[[Data], object] = bool
    """What has happened before the person comes."""
    person: str = "owner"
    leave_out: Mapping[str, str] = field(default_factory=dict)
    """The conditions in which the flow makes no sense, each with the reason."""

    @property
    def reads(self) -> bool:
        return self.stored is None

    @property
    def typed(self) -> list[Step]:
        return [step for step in self.steps if step.is_typed]


def make_data(owner: User, sink: Sink, use_commands: Callable[[str], None]) -> Data:
    use_commands(COMMANDS)
    now = clock.now().replace(microsecond=0)
    ClusterFactory(host="tea-kettle", last_seen_at=now + timedelta(hours=1))
    stretch = JobFactory(owner=owner, name="Stretch", cron="0 9 * * *", tags=["home"], **PUSH)
    Job.objects.filter(pk=stretch.pk).update(next_run_at=stretch.next_slot(now))
    backup = JobFactory(owner=owner, name="Backup", failure_streak=2, last_error=ERROR, recent="SFF", **HOOK)
    report = JobFactory(owner=owner, name="Report", paused=True, pause_reason="Summer break", **ASK)
    briefing = JobFactory(owner=owner, name="Briefing", **ASK)
    disk = JobFactory(owner=owner, name="Disk space", task="disk_space", kwargs={"folder": "/"})
    failed = ExecutionFactory(
        job=backup, status="failed", error=ERROR, attempt=1, started_at=now, finished_at=now
    )
    ExecutionFactory(job=briefing, status="waiting", attempt=1)
    running = ExecutionFactory(
        job=disk, status="running", attempt=1, started_at=now, lease_until=now + timedelta(hours=1)
    )
    engine.save_output(running.pk, 1, OutputText("Half of the disk is full.", "", 25))
    set_secret(Actor(owner), "GITHUB_TOKEN", get_random_string(12), hosts=["api.github.com"])
    Event.objects.filter(owner=owner).delete()
    data = Data(
        owner=owner,
        sink=sink,
        stretch=stretch,
        backup=backup,
        report=report,
        briefing=briefing,
        disk=disk,
        trashed=JobFactory(owner=owner, name="Old newsletter", deleted_at=now, **PUSH),
        failed=failed,
        running=running,
        token=TokenFactory(owner=owner, name="laptop", last_used_at=now),
    )
    data.new_links()
    return data
