"""Approvals and real processes: whatever is killed, and whenever, the allowed call is made once, or the ledger says why not."""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
from django.db import connections

from schedules.management.commands.up import _answers
from schedules.models import AgentRun, Approval, Event, Execution, Job
from schedules.result import Ok
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import ONCE, answer_approval
from schedules.tasks.signed_links import approval_token
from tests.agents.asking_program import AskingProgram
from tests.clusters import (
    SHORT_LEASE,
    Process,
    all_ended,
    family_of,
    is_alive,
    make_due,
    running,
    running_cluster,
    title_of,
)
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status
# The call never ends by itself.
ENDLESS = "note('pid', str(os.getpid())); __import__('time').sleep(600)"


@pytest.fixture
def use_program(tmp_path, runners_file) -> Callable[..., AskingProgram]:
    """Put an asking program into force for clusters that start from now on."""

    def use(more: str = "", **values: Any) -> AskingProgram:
        program = AskingProgram(tmp_path, **values)
        runners_file.write_text(program.runner(f"may_ask = true\n{more}"))
        runners_file.chmod(0o600)
        return program

    return use


@pytest.fixture
def settings_of_clusters(runners_file) -> dict[str, object]:
    return {"CRONTY_RUNNERS_FILE": str(runners_file), **SHORT_LEASE}


def make_job() -> Job:
    (job,) = make_due(1, "prompt", prompt="Push it.", runner="one")
    return job


def allow(job: Job) -> None:
    approval = Approval.objects.get()
    person = Actor(job.owner, Event.Door.WEB)
    assert isinstance(answer_approval(person, approval.pk, ONCE, seen=approval.digest), Ok)
    connections.close_all()


def kill_whole(process: Process) -> None:
    """Kill a process first, and see that its children end with it."""
    family = family_of(process.pid)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, family)))


def has_begun(program: AskingProgram) -> bool:
    """Tell whether the allowed call is being made."""
    return (program.folder / "pid").exists() and bool(program.made)


def process_of(program: AskingProgram) -> psutil.Process:
    return psutil.Process(int((program.folder / "pid").read_text()))


def assert_interrupted(job: Job, program: AskingProgram) -> None:
    """See that a call that was interrupted was not made again, and that the ledger says so."""
    run = Execution.objects.get(job=job)
    assert run.status == Status.FAILED
    assert "whether the call was made is unknown, so it isn't made again" in run.error
    assert program.made == ["toolu_1"]
    assert len(program.starts) == 2
    assert Approval.objects.get().status == Approval.Status.USED
    cut_off = AgentRun.objects.get(execution=run, attempt=2)
    assert cut_off.verdict == AgentRun.Verdict.UNKNOWN
    assert cut_off.words.startswith("The worker ")
    assert cut_off.ended_at is not None


def test_program_that_waits_makes_the_allowed_call_in_its_first_attempt(use_program, settings_of_clusters):
    program = use_program('wait_within = "10m"\n')
    with running_cluster(**settings_of_clusters):
        job = make_job()
        wait_for(lambda: Approval.objects.exists())
        assert program.made == []
        allow(job)
        wait_for(all_ended)

    run = Execution.objects.get(job=job)
    assert (run.status, run.attempt, run.result) == (Status.SUCCEEDED, 1, "All done.")
    assert (program.made, len(program.starts)) == (["toolu_1"], 1)


@pytest.mark.verify
def test_call_is_withdrawn_if_the_cluster_is_killed_while_its_program_waits(
    use_program, settings_of_clusters
):
    program = use_program('wait_within = "10m"\n')
    with running_cluster(**settings_of_clusters) as cluster:
        job = make_job()
        wait_for(lambda: Approval.objects.exists())
        kill_whole(cluster)

    with running_cluster(**settings_of_clusters):
        wait_for(lambda: Approval.objects.filter(status="withdrawn").exists())

    assert program.made == []
    assert not Approval.objects.filter(job=job, status="allowed").exists()


@pytest.mark.verify
def test_call_is_made_once_although_the_cluster_was_killed_before_and_after_the_answer(
    use_program, settings_of_clusters
):
    program = use_program()
    with running_cluster(**settings_of_clusters) as cluster:
        job = make_job()
        wait_for(lambda: Approval.objects.exists())
        kill_whole(cluster)
    assert program.made == []

    allow(job)
    with running_cluster(**settings_of_clusters):
        wait_for(all_ended)

    run = Execution.objects.get(job=job)
    assert (run.status, run.attempt, run.result) == (Status.SUCCEEDED, 2, "All done.")
    assert program.made == ["toolu_1"]
    assert len(program.starts) == 2
    assert Approval.objects.get().status == Approval.Status.USED


@pytest.mark.verify
def test_call_is_not_made_again_after_its_worker_was_killed_in_the_middle_of_it(
    use_program, settings_of_clusters
):
    program = use_program(then=ENDLESS)
    with running_cluster(**settings_of_clusters) as cluster:
        job = make_job()
        wait_for(lambda: Approval.objects.exists())
        allow(job)
        wait_for(lambda: has_begun(program))
        agent = process_of(program)
        guard, _, worker = agent.parents()[:3]
        assert worker in family_of(cluster.pid)

        worker.kill()

        wait_for(lambda: not any(map(is_alive, (agent, guard, worker))))
        wait_for(all_ended)

    assert_interrupted(job, program)


class Installation:
    """`up` on a port of its own, which is killed and started again."""

    def __init__(self, values: dict[str, object]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self._values = values

    def up(self, *arguments: str) -> AbstractContextManager[Process]:
        return running("up", "--port", self.port, *arguments, **self._values)

    def wait_for_pages(self) -> None:
        wait_for(lambda: _answers(f"http://127.0.0.1:{self.port}/healthz"))

    def allow(self, approval: Approval) -> None:
        """Press the button on the page behind the link of the alert."""
        connection = HTTPConnection("127.0.0.1", int(self.port), timeout=PATIENCE)
        path = f"/approve/{approval_token(approval.pk, approval.digest)}/"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", path, urlencode({"answer": ONCE, "seen": approval.digest}), headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        connection.close()


def kill_each(process: Process) -> None:
    """Kill the workers, the web process and `up`, each by itself, and see that nothing is left."""
    family = family_of(process.pid)
    for child in family:
        if " idle" in title_of(child) or " busy" in title_of(child) or " web " in title_of(child):
            child.kill()
    kill_whole(process)
    wait_for(lambda: not any(map(is_alive, family)))


@pytest.fixture
def installation(settings_of_clusters, tmp_path: Path) -> Installation:
    return Installation({**settings_of_clusters, "CRONTY_ADMIN_PASSWORD": "known"})


@pytest.mark.verify
def test_call_is_made_once_although_everything_was_killed_before_and_after_the_answer(
    use_program, installation
):
    program = use_program()
    with installation.up() as everything:
        job = make_job()
        wait_for(lambda: Approval.objects.exists())
        kill_each(everything)
    with installation.up("--no-cluster") as pages:
        installation.wait_for_pages()
        installation.allow(Approval.objects.get())
        kill_each(pages)
    assert program.made == []

    with installation.up():
        wait_for(all_ended)

    run = Execution.objects.get(job=job)
    assert (run.status, run.attempt, run.result) == (Status.SUCCEEDED, 2, "All done.")
    assert program.made == ["toolu_1"]


@pytest.mark.verify
def test_call_is_not_made_again_after_everything_was_killed_in_the_middle_of_it(use_program, installation):
    program = use_program(then=ENDLESS)
    with installation.up() as everything:
        job = make_job()
        wait_for(lambda: Approval.objects.exists())
        installation.wait_for_pages()
        installation.allow(Approval.objects.get())
        wait_for(lambda: has_begun(program))
        agent = process_of(program)
        kill_each(everything)
        wait_for(lambda: not is_alive(agent))

    with installation.up():
        wait_for(all_ended)

    assert_interrupted(job, program)
