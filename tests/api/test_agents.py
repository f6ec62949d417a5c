"""The runners over the API, and the kill switch: an agent's token may stop, and only a program's may start again."""

import json
import sys

import pytest

from schedules.models import AgentStop, Job, Token
from tests.agents.streams import as_bytes, lines_of
from tests.agents.work import work
from tests.api.conftest import Program, program_of
from tests.api.test_jobs import problem
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, agent_run

RUNNER = '[notes]\ndescription = "Reads."\nkind = "command"\nprogram = "/bin/echo"\nallow = ["everyone", "agents"]\nper_day = { runs = 3 }\n'


def test_runners_are_listed_with_what_is_left(program: Program, use_runners):
    use_runners(RUNNER)

    [listed] = program.ok("GET", "/agents")["runners"]

    assert (listed["name"], listed["description"]) == ("notes", "Reads.")
    [left] = listed["left"]
    assert (left["unit"], left["cap"], left["description"]) == ("runs", 3.0, "3 of 3 runs")
    assert "/bin/echo" not in str(listed)


def test_run_shows_what_its_agent_did(program: Program, owner):
    run = agent_run(owner).execution
    plain = ExecutionFactory(job=JobFactory(owner=owner))

    assert program.ok("GET", f"/runs/{run.pk}")["agent"] == {
        "runner": "notes",
        "kind": "claude",
        "attempt": 2,
        "verdict": "refused",
        "why": "permission for `Bash: git push` was not granted",
        "turns": 3,
        "tokens_in": 1200,
        "tokens_out": 34,
        "money": 0.05,
        "tool_calls": 4,
        "denials": [{"tool": "Bash", "input": "git push"}],
    }
    assert program.ok("GET", f"/runs/{plain.pk}")["agent"] is None


def test_agents_are_stopped_and_started_again(program: Program):
    assert program.ok("POST", "/agents/stop")["stopped"]["everybody"] is False
    assert program.ok("POST", "/agents/start")["stopped"] is None
    assert problem(program.call("POST", "/agents/start"))["code"] == "agents_not_stopped"


@pytest.mark.parametrize("body", [{"everybody": True}, {"everybody": "yes"}, {"all": True}])
def test_wrong_requests_change_nothing(program: Program, body):
    assert program.call("POST", "/agents/stop", body).status_code in (403, 422)
    assert not AgentStop.objects.exists()


def test_agents_token_stops_but_does_not_start(owner):
    agent = program_of(owner, name="laptop", kind="conversation")

    agent.ok("POST", "/agents/stop")

    assert problem(agent.call("POST", "/agents/start"))["code"] == "agents_started_by_people"
    assert problem(agent.call("POST", "/prompts/claim"))["detail"].startswith("Laptop stopped all agents.")
    assert AgentStop.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_check_of_a_runner_is_a_run_of_a_cluster_within_all_limits(owner, use_runners, tmp_path):
    (tmp_path / "lines").write_bytes(as_bytes(lines_of("claude", "done")))
    agent = tmp_path / "agent"
    agent.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdin.read()\nopen({str(tmp_path / 'starts')!r}, 'a').write('x')\n"
        f"sys.stdout.write(open({str(tmp_path / 'lines')!r}).read())\n"
    )
    agent.chmod(0o700)
    use_runners(
        f'[notes]\ndescription = "x"\nkind = "claude"\nprogram = "{agent}"\nallow = ["everyone"]\n'
        "per_person_per_day = { runs = 1 }\n"
    )
    program, cluster = program_of(owner), ClusterFactory()
    for refused, why in (
        (program_of(owner, name="agent", kind=Token.Kind.CONVERSATION), "Agents may not use the runner"),
        (program_of(owner, name="asks", confirm=Token.Confirm.PROMPTS), "a person would have to confirm"),
        (program_of(owner, name="notes only", families=["notifications"]), "Choose one of: notify."),
    ):
        answer = refused.call("POST", "/agents/runners/notes/check")
        assert (answer.status_code >= 400, why in json.loads(answer.content)["detail"]) == (True, True)
    assert not Job.objects.exists()

    verdicts = []
    for _ in range(2):
        run = program.ok("POST", "/agents/runners/notes/check")["run"]
        work(cluster)
        verdicts.append(program.ok("GET", f"/agents/checks/{run}"))

    assert [verdict["is_good"] for verdict in verdicts] == [True, False]
    assert "have used up today's 1 runs" in verdicts[1]["words"]
    assert (tmp_path / "starts").read_text() == "x"
