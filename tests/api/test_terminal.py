"""Command lines over HTTP: with which tokens, what is streamed, and what they may not do."""

import asyncio
import gc
import json
import sys
import threading
from typing import Any

import pytest
from django.db import connections
from django.test import AsyncClient

from cronty_site.terminal.serving import RemoteConsole, SiteTerminal
from schedules.api.auth import caller_of
from schedules.api.routes import terminal
from schedules.api.schemas.terminal import LineIn
from schedules.models import AgentRun, Event, Execution, Job, Token
from schedules.services import revoke_token
from tests.agents.streams import as_bytes, lines_of
from tests.agents.work import work
from tests.api.conftest import Program, program_of
from tests.factories import ClusterFactory, JobFactory

PATIENCE = 60.0
pytestmark = pytest.mark.django_db(transaction=True)


async def send(program: Program | None, *words: str, **more: Any) -> tuple[int, list[dict[str, Any]]]:
    headers = {"Authorization": f"Bearer {program.text}"} if program else {}
    answer = await AsyncClient().post(
        "/api/v1/terminal",
        json.dumps({"words": words, **more}),
        content_type="application/json",
        headers=headers,
    )
    if not answer.streaming:
        return answer.status_code, [json.loads(answer.content)]
    async with asyncio.timeout(PATIENCE):
        parts = [part.decode() async for part in answer.streaming_content]
    return answer.status_code, [json.loads(line) for line in "".join(parts).splitlines() if line]


def said(events: list[dict[str, Any]], stream: str) -> str:
    return "".join(event.get(stream, "") for event in events)


def test_command_line_is_executed_with_the_rights_of_its_token(owner, stranger):
    program = program_of(owner)
    JobFactory(owner=owner, name="Backup")
    JobFactory(owner=stranger, name="Secret")

    status, events = asyncio.run(send(program, "jobs"))

    assert (status, events[-1]) == (200, {"exit": 0})
    assert "Backup" in said(events, "out")
    assert "Secret" not in said(events, "out")
    status, events = asyncio.run(send(program, "pause", "Secret"))
    assert (events[-1], "Job not found: Secret" in said(events, "err")) == ({"exit": 3}, True)
    asyncio.run(send(program, "pause", "Backup"))
    assert Job.objects.get(name="Backup").status == "paused"
    assert Event.objects.filter(verb="pause").get().door == "api"


@pytest.mark.parametrize("kind", ["none", "junk", "revoked"])
def test_no_command_line_is_executed_without_a_usable_token(owner, kind):
    program = program_of(owner)
    if kind == "revoked":
        revoke_token(owner, program.token.pk)
    given = {"none": None, "junk": Program("cronty_junk", program.token)}.get(kind, program)

    status, _ = asyncio.run(send(given, "jobs"))

    assert status == 401


def test_token_that_may_only_read_changes_nothing(owner):
    JobFactory(owner=owner, name="Backup")
    program = program_of(owner, scopes=["read"])

    for words in (("pause", "Backup"), ("delete", "Backup"), ("token", "x"), ("secret", "X"), ("calendars",)):
        status, [problem] = asyncio.run(send(program, *words))
        assert (status, problem["code"]) == (403, "scope_missing")
    for words in (("ls",), ("show", "Backup"), ("next",), ("export",)):
        assert asyncio.run(send(program, *words))[1][-1] == {"exit": 0}
    assert Job.objects.get().status == "pending"


def test_agents_token_gets_no_more_than_through_its_tools(owner):
    agent = program_of(owner, name="agent", kind=Token.Kind.CONVERSATION)

    for words in (("secret", "X", "--delete"), ("token", "other"), ("channels", "phone", "--delete")):
        _, events = asyncio.run(send(agent, *words))
        assert events[-1] == {"exit": 1}, events
    assert Token.objects.count() == 1


def test_token_passes_on_no_more_than_it_has_and_not_for_long(owner):
    program = program_of(owner, families=["jobs"])

    _, events = asyncio.run(send(program, "token", "lesser", "--json"))
    _, refused = asyncio.run(send(program, "token", "more", "--tools", "prompts"))

    assert json.loads(said(events, "out"))["token"].startswith("cronty_")
    lesser = Token.objects.get(name="lesser")
    assert (lesser.families, lesser.expires_at is not None) == (["jobs"], True)
    assert refused[-1] == {"exit": 1}


def test_check_of_a_runner_is_a_run_of_a_cluster_within_all_limits(owner, use_runners, tmp_path, monkeypatch):
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
    program, check = program_of(owner), ("runner", "check", "notes")
    _, events = asyncio.run(send(program, *check))
    assert (events[-1], "No cluster is running" in said(events, "err")) == ({"exit": 5}, True)
    cluster = ClusterFactory()
    monkeypatch.setattr(RemoteConsole, "pause", lambda *_: work(cluster))

    for refused, why in (
        (program_of(owner, name="agent", kind=Token.Kind.CONVERSATION), "Agents may not use the runner"),
        (program_of(owner, name="asks", confirm=Token.Confirm.PROMPTS), "a person would have to confirm"),
        (program_of(owner, name="notes only", families=["notifications"]), "Choose one of: notify."),
    ):
        _, events = asyncio.run(send(refused, *check))
        assert (events[-1], why in said(events, "err")) == ({"exit": 1}, True), events
    assert not Job.objects.exists()

    _, events = asyncio.run(send(program, *check))
    assert (events[-1], "Done" in said(events, "out")) == ({"exit": 0}, True), events
    _, events = asyncio.run(send(program, *check))
    assert (events[-1], "have used up today's 1 runs" in said(events, "err")) == ({"exit": 4}, True), events

    assert (tmp_path / "starts").read_text() == "x"
    assert list(Execution.objects.order_by("pk").values_list("status", flat=True)) == ["succeeded", "skipped"]
    assert Job.objects.get().name == "Check of the runner notes"
    assert AgentRun.objects.filter(verdict="done").count() == 1


@pytest.mark.parametrize(
    "words",
    [
        ("up",),
        ("manage", "shell"),
        ("doctor",),
        ("backup", "x.sqlite3"),
        ("mcp",),
        ("completion", "bash"),
        ("--help",),
    ],
)
def test_commands_about_the_machine_are_not_executed(owner, words):
    _, events = asyncio.run(send(program_of(owner), *words))

    assert events[-1] == {"exit": 2}


def test_nobody_acts_as_somebody_else(owner, stranger, monkeypatch):
    JobFactory(owner=stranger, name="Secret")
    program = program_of(owner)

    _, events = asyncio.run(send(program, "jobs", "--user", stranger.username))
    assert events[-1] == {"exit": 1}
    # What the server's own environment says is about its own terminal.
    monkeypatch.setenv("CRONTY_USER", stranger.username)
    _, events = asyncio.run(send(program, "jobs"))
    assert "Secret" not in said(events, "out")


def test_files_are_those_of_the_person(owner, tmp_path):
    program = program_of(owner)
    (tmp_path / "jobs.yaml").write_text("jobs: {}")

    _, events = asyncio.run(send(program, "apply", str(tmp_path / "jobs.yaml")))
    _, crontab = asyncio.run(send(program, "import", "crontab", "/etc/crontab"))

    assert events[-1]["ask"]["action"] == "source_of"
    assert "exit" not in events[-1]
    assert crontab[-1] == {"exit": 1}


def test_answer_to_another_question_changes_nothing(owner):
    _, [asked] = asyncio.run(send(program_of(owner), "secret", "KEY", "--host", "a.example"))

    assert asked["ask"]["action"] == "read_input"
    answers = [{"to": "0" * 64, "value": "hush"}]
    _, events = asyncio.run(
        send(program_of(owner, name="b"), "secret", "KEY", "--host", "a.example", answers=answers)
    )
    assert "changed meanwhile" in said(events, "err")
    assert events[-1] == {"exit": 1}


def test_what_follows_ends_with_its_token_and_with_the_server(owner):
    for number, is_stop in enumerate((False, True)):
        program = program_of(owner, name=f"p{number}")

        def end(program: Program = program, is_stop: bool = is_stop) -> None:
            try:
                terminal.end_lines() if is_stop else revoke_token(owner, program.token.pk)
            finally:
                connections.close_all()

        timer = threading.Timer(0.3, end)
        timer.start()
        _, events = asyncio.run(send(program, "logs", "--follow"))
        timer.join()
        assert events == []
        assert not terminal._open


def test_crontab_is_refused_alike_whatever_the_server_has_at_its_path(owner, tmp_path):
    (tmp_path / "file").touch()
    programs, answers = program_of(owner), set()
    for name in ("file", "missing", "."):
        for words in (("--write", str(tmp_path / name)), (str(tmp_path / name),)):
            _, events = asyncio.run(send(programs, "import", "crontab", *words))
            answers.add((said(events, "err"), events[-1]["exit"]))

    [(problem, code)] = answers
    assert ("on the machine of Cronty itself" in problem, code) == (True, 1)


def test_lines_are_bounded_by_token_person_and_process_and_the_refusal_says_which(owner, stranger):
    own, second, third = (program_of(owner, name=f"p{number}") for number in range(3))
    foreign = program_of(stranger)

    for taken, words in (
        ([own] * 5, "At most 5 command lines of a token"),
        ([own] * 4 + [second] * 4, "At most 8 command lines of a person"),
        ([foreign] * 20, "All 20 command lines of this server"),
    ):
        held = [terminal.Line(caller_of(each.token)) for each in taken]
        terminal._open.update(held)
        status, [problem] = asyncio.run(send(third if taken != [own] * 5 else own, "jobs"))
        assert (status, problem["code"], words in problem["detail"]) == (429, "too_many_lines", True), problem
        if foreign not in taken:
            assert asyncio.run(send(foreign, "jobs"))[0] == 200
        del held
        gc.collect()
    assert not terminal._open


def test_colours_and_width_are_those_of_the_terminal_that_asks(owner):
    JobFactory(owner=owner, name="x" * 120)
    token = Token.objects.select_related("owner__cronty_profile").get(pk=program_of(owner).token.pk)

    def ask(**line: Any) -> str:
        events: list[dict[str, Any]] = []
        given = LineIn.model_validate({"words": ["jobs"], **line})
        SiteTerminal().run(caller_of(token), given, events.append, lambda: False)
        return said(events, "out")

    in_terminal = ask(out_is_terminal=True, width=80, environ={"TERM": "xterm-256color"})
    assert max(map(len, ask(out_is_terminal=True, width=80, environ={"TERM": "dumb"}).splitlines())) <= 80
    assert "\x1b[" in in_terminal
    assert "\x1b[3" not in ask(out_is_terminal=True, width=80, environ={"TERM": "xterm", "NO_COLOR": "1"})
    assert "x" * 120 in ask()
