"""Approvals and real clusters: whatever is killed before the answer, the allowed call is made once."""

import pytest
from django.db import connections

from schedules.models import Approval, Event, Execution
from schedules.result import Ok
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import ONCE, answer_approval
from tests.agents.asking_program import AskingProgram
from tests.clusters import all_ended, family_of, is_alive, make_due, running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status


def test_call_is_made_once_although_the_cluster_was_killed_before_and_after_the_answer(
    tmp_path, runners_file
):
    program = AskingProgram(tmp_path)
    runners_file.write_text(program.runner())
    runners_file.chmod(0o600)
    settings = {"CRONTY_RUNNERS_FILE": str(runners_file)}
    with running_cluster(**settings) as cluster:
        (job,) = make_due(1, "prompt", prompt="Push it.", runner="one")
        wait_for(lambda: Approval.objects.exists())
        family = family_of(cluster.pid)
        cluster.kill()
        cluster.wait()
        wait_for(lambda: not any(map(is_alive, family)))
    assert program.made == []

    approval = Approval.objects.get()
    person = Actor(job.owner, Event.Door.WEB)
    assert isinstance(answer_approval(person, approval.pk, ONCE, seen=approval.digest), Ok)
    connections.close_all()
    with running_cluster(**settings):
        wait_for(all_ended)

    run = Execution.objects.get(job=job)
    assert (run.status, run.attempt, run.result) == (Status.SUCCEEDED, 2, "All done.")
    assert program.made == ["toolu_1"]
    assert len(program.starts) == 2
    assert Approval.objects.get().status == Approval.Status.USED
