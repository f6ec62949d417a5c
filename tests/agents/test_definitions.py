"""Runners in the operator's file: what is read, and every mistake with its line."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from schedules.agents.adapters import ADAPTERS
from schedules.agents.definitions import parse
from schedules.tasks.operator_files.tables import OperatorFileError

HEAD = '[one]\ndescription = "x"\n'


def runner_of(more: str):
    return parse(HEAD + more)["one"]


def test_runner_has_model_tools_limits_and_people():
    runner = runner_of(
        'kind = "claude"\nmodel = "opus"\ntools = ["Read", "Bash(git log:*)"]\nmax_time = "5m"\nmax_turns = 9\n'
        'max_tokens = 1000\nmax_money = 0.5\nper_day = { runs = 3, money = 2 }\nusers = ["olga"]\n'
        "per_person_per_day = { minutes = 30 }\nper_job_per_day = { runs = 1, tokens = 5000 }\n"
        'environment = { ANTHROPIC_API_KEY = "${secret:CLAUDE}" }\n'
    )

    assert runner.max_time == timedelta(minutes=5)
    assert runner.secrets == {"CLAUDE"}
    assert runner.limits_in_words() == (
        "5 min, 9 turns, 1,000 tokens, $0.50, 3 runs a day, $2.00 a day, 30 min a day per person,"
        " 1 run a day per job, 5,000 tokens a day per job"
    )
    assert runner.refusal(User(username="olga"), False, "one") is None
    assert runner.refusal(User(username="boss", is_staff=True), False, "one") is None
    assert "not open to this user" in runner.refusal(User(username="sam"), False, "one")
    assert runner.refusal(User(username="olga"), True, "one") == "Agents may not use the runner one."


@pytest.mark.parametrize(
    ("more", "arguments"),
    [
        (
            'kind = "claude"\nmodel = "opus"\ntools = ["Read", "Grep"]\nmax_turns = 3\nmax_money = 0.5\n',
            "-p --output-format stream-json --verbose --permission-mode dontAsk --model=opus --allowedTools=Read,Grep"
            " --max-turns 3 --max-budget-usd 0.5 --no-session-persistence",
        ),
        (
            'kind = "claude"\nparameters = { bare = true, effort = "high", debug = false }\n',
            "-p --output-format stream-json --verbose --permission-mode dontAsk --no-session-persistence --bare --effort=high",
        ),
        (
            'kind = "codex"\nmode = "workspace-write"\nparameters = { model_reasoning_effort = "low" }\n',
            "exec --json --skip-git-repo-check --sandbox workspace-write --ephemeral --config=model_reasoning_effort=low -",
        ),
        (
            'kind = "gemini"\ntools = ["read_file"]\n',
            "--output-format stream-json --approval-mode default --allowed-tools=read_file",
        ),
        ('kind = "opencode"\nmodel = "a/b"\n', "run --format json --model=a/b"),
    ],
)
def test_adapter_builds_the_argument_list(more: str, arguments: str):
    runner = runner_of(more)

    assert ADAPTERS[runner.kind].arguments(runner, "") == arguments.split(" ")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("claude", "--resume s1"),
        ("codex", "resume s1 -"),
        ("gemini", "--resume s1"),
        ("opencode", "--session s1"),
    ],
)
def test_session_that_is_continued_is_named(kind: str, arguments: str):
    runner = runner_of(
        f'kind = "{kind}"\nsession = "continue"\ndirectory = "/srv"\nenvironment = {{ HOME = "/home/me" }}\n'
    )

    assert " ".join(ADAPTERS[kind].arguments(runner, "s1")).endswith(arguments)
    assert "--ephemeral" not in ADAPTERS[kind].arguments(runner, "s1")


@pytest.mark.parametrize(
    ("kind", "forgets"), [("codex", "--ephemeral"), ("claude", "--no-session-persistence")]
)
def test_runner_that_may_ask_keeps_the_session_of_its_first_attempt(kind: str, forgets: str):
    runner = runner_of(
        f'kind = "{kind}"\nmay_ask = true\ndirectory = "/srv"\nenvironment = {{ HOME = "/home/me" }}\n'
    )

    assert forgets not in ADAPTERS[kind].arguments(runner, "")


@pytest.mark.parametrize(
    "more", ['kind = "command"\nprogram = "cat"\n', 'kind = "webhook"\nurl = "https://x.example"\n']
)
def test_runner_without_sessions_may_ask_without_a_folder(more: str):
    assert runner_of(f"{more}may_ask = true\n").may_ask


def test_mistake_is_named():
    for more, words in [
        ('kind = "clippy"\n', "one.kind: input should be"),
        ('kind = "command"\n', "program: field required"),
        ('kind = "webhook"\n', "url: a runner of kind webhook has one"),
        (
            'kind = "claude"\nurl = "https://x.example"\n',
            "url: a runner of kind webhook has one, and no other kind",
        ),
        ('kind = "claude"\narguments = ["--x"]\n', "arguments: write parameters instead"),
        ('kind = "inbox"\nprogram = "/bin/true"\n', "program: a runner of kind inbox starts no program"),
        ('kind = "command"\nprogram = "cat"\nmodel = "x"\n', "model: a runner of kind command has none"),
        ('kind = "claude"\nprogram = "bin/claude"\n', "give the whole path"),
        ('kind = "claude"\nmode = "bypassPermissions"\n', "bypass_permissions = true if you mean it"),
        (
            'kind = "claude"\nparameters = { dangerously-skip-permissions = true }\n',
            "grants everything without asking",
        ),
        ('kind = "codex"\nmode = "danger-full-access"\n', "grants everything without asking"),
        ('kind = "codex"\nparameters = { sandbox_mode = "danger-full-access" }\n', "grants everything"),
        ('kind = "gemini"\nmode = "yolo"\n', "grants everything without asking"),
        ('kind = "opencode"\nmode = "auto"\n', "grants everything without asking"),
        ('kind = "claude"\nmode = "sometimes"\n', "mode: choose one of dontAsk"),
        ('kind = "claude"\nparameters = { output-format = "json" }\n', "output-format is set by Cronty"),
        ('kind = "codex"\ntools = ["x"]\n', "takes no list of tools"),
        ('kind = "codex"\nmax_money = 1\n', "max_money: a runner of kind codex does not report money"),
        (
            'kind = "gemini"\nper_day = { money = 1 }\n',
            "per_day.money: a runner of kind gemini does not report",
        ),
        (
            'kind = "webhook"\nurl = "https://x.example"\nper_job_per_day = { money = 1 }\n',
            "only claude, opencode do",
        ),
        (
            'kind = "command"\nprogram = "cat"\nmax_tokens = 9\n',
            "max_tokens: a runner of kind command does not report",
        ),
        (
            'kind = "command"\nprogram = "cat"\nper_person_per_day = { tokens = 9 }\n',
            "per_person_per_day.tokens: a runner of kind command",
        ),
        ('kind = "inbox"\nmax_time = "5m"\n', "max_time: prompts in the inbox have no limits"),
        ('kind = "inbox"\nper_day = { runs = 3 }\n', "per_day.runs: prompts in the inbox have no limits"),
        ('kind = "inbox"\nat_once = 2\n', "at_once: prompts in the inbox have no limits"),
        ('kind = "claude"\ntools = ["--x"]\n', "write one tool per entry"),
        ('kind = "claude"\nmax_turns = 0\n', "greater than or equal to 1"),
        ('kind = "claude"\nper_day = { rnus = 1 }\n', "per_day.rnus: unknown key"),
        ('kind = "claude"\nsession = "continue"\n', "set directory, and HOME"),
        ('kind = "claude"\nmay_ask = true\n', "may_ask: programs keep sessions by folder"),
        ('kind = "codex"\nmay_ask = true\n', "may_ask: programs keep sessions by folder"),
        (
            'kind = "inbox"\nmay_ask = true\n',
            "may_ask: an agent that takes a prompt from the inbox asks by itself",
        ),
        ('kind = "claude"\nwait_within = "5m"\n', "wait_within: only a runner of kind claude with may_ask"),
        (
            'kind = "command"\nprogram = "cat"\nmay_ask = true\nwait_within = "5m"\n',
            "wait_within: only a runner of kind claude with may_ask",
        ),
        ('kind = "claude"\nmay_ask = true\nmode = "plan"\n', "works in the mode dontAsk or acceptEdits"),
        (
            'kind = "claude"\nmay_ask = true\nparameters = { settings = "x" }\n',
            "settings does not fit may_ask",
        ),
        ('kind = "claude"\nmay_ask = true\nparameters = { bare = true }\n', "bare does not fit may_ask"),
        ('kind = "codex"\ngrantable = ["x"]\n', "grantable: codex takes no list of tools"),
        ('kind = "claude"\nanswer_within = "3d"\n', "between one second and one day"),
        ('kind = "claude"\nenvironment = { A = "${secret:}" }\n', "secret"),
    ]:
        with pytest.raises(OperatorFileError, match=r"(?i)line [1-9]") as caught:
            parse(HEAD + more)

        assert words in str(caught.value)


def test_two_defaults_are_refused():
    table = 'description = "x"\nkind = "inbox"\ndefault = true\n'

    with pytest.raises(OperatorFileError, match="line 8: two: one is the default already"):
        parse(f"[one]\n{table}[two]\n{table}")


def test_operator_can_write_that_everything_is_granted():
    assert runner_of('kind = "gemini"\nmode = "yolo"\nbypass_permissions = true\n').mode == "yolo"


def test_tools_of_opencode_are_the_only_ones_allowed():
    opencode = runner_of('kind = "opencode"\ntools = ["shell"]\n')

    config = ADAPTERS["opencode"].environment(opencode)["OPENCODE_CONFIG_CONTENT"]
    assert config == '{"permission": {"*": "ask", "shell": "allow"}}'
