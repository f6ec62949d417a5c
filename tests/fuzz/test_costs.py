"""The cost of parsers of text from outside: double the text, and it takes at most two and a half times as long.

Every module with regular expressions is reached from here, or says why no stranger can send it long text.
"""

import ast
import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.test import RequestFactory

from cronty_site.logs import hide_keys
from schedules import limits
from schedules.agents.adapters import ADAPTERS
from schedules.agents.hook import is_granted
from schedules.agents.prompt_texts import prompt_with_answer, with_previous
from schedules.agents.recording import Bounds, Recorder
from schedules.agents.verdicts import Ending, judge
from schedules.api.bodies import BodyParser
from schedules.mcp.tools.moments import read_moment
from schedules.mcp.tools.triggers import read_trigger
from schedules.models import Approval
from schedules.models.alert_rules import read_rules
from schedules.secrets.masking import Masker, masked
from schedules.services.files.crontab import parse_crontab
from schedules.services.files.crontab_jobs import make_jobs
from schedules.services.files.healthchecks import parse_checks
from schedules.services.files.jobs import read_jobs
from schedules.spec.readers import read_end, read_span
from schedules.tasks.asking import read_ask
from schedules.tasks.commands.output import KeptOutput, colours_in
from schedules.tasks.grants import covers, grant_of
from schedules.tasks.heartbeat import SLUG
from schedules.tasks.links import link_problem
from schedules.tasks.outbound import Reply, problem_with_url
from schedules.tasks.outbound.requests import CHARSET
from schedules.tasks.placeholders import fill_in, mark_text
from schedules.tasks.replies import retry_after
from schedules.templatetags.cronty_agents import answer_text
from schedules.web.pings import requests as pings
from schedules.when import cron
from schedules.when.calendar_rules import days_of, hours_of, usual_name
from schedules.when.clauses import parse_plan
from schedules.when.event_times import read_event_times
from schedules.when.ics import MAX_CHARACTERS, read_ics
from schedules.when.periods import parse_period
from schedules.when.phrases import parse_delay, parse_moment
from schedules.when.sentences import parse_sentence
from schedules.when.unplanned import read_ending
from schedules.when.zone_names import zone_named
from tests.agents.streams import COMMON, OWN, Lines, as_bytes, lines_of
from tests.sizes import sizes

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 15, 10, tzinfo=UTC)
YEAR = date(2026, 1, 1), date(2026, 12, 31)
SHORTEST_SECONDS = 0.05
MAX_RATIO = 2.5
# What grows by the square takes four times as long; a busy machine has some slack.
MAX_RATIO_OF_SMALL = 3.0
ENOUGH_SECONDS = 0.1
# More than one is needed where the processor's caches are shared with others.
TRIES = 30
MEGABYTE = 1_000_000
# `make verify` tries one part of so many with each parser, each parser other ones; `make fuzz` tries them all.
STEP = int(os.environ.get("COST_STEP", "4"))

NASTY = ("|", "<", " ")
PARTS = (
    *NASTY,
    *("a", "1", "a ", "1 ", "\t", "\r", "\r\n", "\\", "/", "]", "(", ")", "{{", "}}", "{{ ", ">", "</", "*", "_", "`"),
    *("[", '"', "\n", "error="),
    *("#", "-", "=", ":", ";", ",", ".", "&", "%", "$", "@", "'", "~", "\x1b[", "\x1b]", "\x1b]x\x07", "\x00", "\u200d"),
    *("é", "☕", "\u2028", "[a|b]", "a=b ", "a, b and ", "* ", "*/2 ", "http://a.b/", "**a**", "`a`", "- a\n", "# a\n"),
    *("${secret:A}", "<answer>", "</answer>", "every ", " at 9", "1-2,", "\\u0041", "a: b\n", "- [", "&a *a "),
)  # fmt: skip


class Parser(NamedTuple):
    """A parser, and the text around the part that grows."""

    read: Callable[[str], object]
    around: Sequence[tuple[str, str]] = (("", ""),)
    longest: int = MEGABYTE
    parts: Sequence[str] = ()
    small: int = 10_000
    """The length in the small form of the test: where a text that grows by the square shows it."""


def each(*readers: Callable[[str], object]) -> Callable[[str], None]:
    """Read a text in several ways, also if one of them refuses it."""

    def read(text: str) -> None:
        for reader in readers:
            with suppress(Exception):
                reader(text)

    return read


def filled(value: Any, text: str) -> Any:
    """Copy an event of a stream with this text in place of all prose."""
    match value:
        case dict():
            return {key: filled(item, text) for key, item in value.items()}
        case list():
            return [filled(item, text) for item in value]
        case str() if " " in value or "\n" in value:
            return text
        case _:
            return value


def recorded(kind: str | None, output: bytes, errors: bytes = b"") -> object:
    recorder = Recorder(
        ADAPTERS[kind] if kind else None, KeptOutput(10_000, ("secret",)), Bounds(), lambda: None
    )
    recorder.add(1, output)
    recorder.add(2, errors)
    recorder.finish()
    return judge(recorder.report, Ending())


def streams(kind: str, endings: Sequence[Lines], text: str) -> object:
    """Read a stream of each ending, with this text in place of all its prose."""
    return [recorded(kind, as_bytes([filled(line, text) for line in lines])) for lines in endings]


def of_streams() -> Iterator[tuple[str, Parser]]:
    for kind in ADAPTERS:
        endings = [filled_in for ending in (*COMMON, *OWN[kind]) if (filled_in := lines_of(kind, ending))]
        yield f"{kind}, events", Parser(lambda text, kind=kind, endings=endings: streams(kind, endings, text))
        lines = as_bytes(lines_of(kind, "denied")).decode()
        repeated = lambda text, kind=kind: recorded(kind, text.encode("utf-8", "replace"))  # noqa: E731
        yield f"{kind}, lines", Parser(repeated, parts=(lines,))
        error = lambda text, kind=kind: recorded(kind, b"", text.encode("utf-8", "replace"))  # noqa: E731
        yield (
            f"{kind}, errors",
            Parser(error, (("ERROR codex_core: ", "\n"),), parts=("codex_core error=x\n", "error=")),
        )


def read_body(text: str) -> object:
    body = text.encode("utf-8", "surrogatepass")
    request = RequestFactory().post("/", body, content_type="application/json")
    return BodyParser().parse_body(request)


def read_crontab(text: str) -> object:
    crontab = parse_crontab(text, timezone="UTC", user="bob", home="/home/bob")
    return make_jobs(crontab.entries, {}, lambda name: False)


def names(text: str) -> str:
    """Return an object of JSON with as many different names as the text has characters, the last one twice."""
    return json.dumps(dict.fromkeys(map(str, range(len(text) // 8))))[:-1] + f', "{len(text) // 8 - 1}": 1}}'


def deep(text: str) -> str:
    """Return JSON whose one long name stands over many values."""
    return json.dumps({text[: len(text) // 2]: [1] * (len(text) // 4)})


_EVENT = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20260401T100000Z\r\n"
_END = "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
PARSERS: dict[str, Parser] = {
    "calendar file": Parser(
        lambda text: read_ics(text, *YEAR, "UTC"),
        (
            ("BEGIN:VCALENDAR\r\n", ""),
            (f"{_EVENT}SUMMARY:", _END),
            (f"{_EVENT}RRULE:FREQ=DAILY;BYDAY=", _END),
            (f"{_EVENT}X", f":x{_END}"),
        ),
        MAX_CHARACTERS,
        (
            "BEGIN:VEVENT\n",
            "BEGIN:VALARM\n",
            "END:VEVENT\n",
            "BEGIN:VEVENT\nEND:VEVENT\n",
            'A="',
            ";A=b",
            "MO,",
        ),
    ),
    "calendar lines": Parser(
        each(usual_name, lambda text: days_of(text.split("\n"), *YEAR)),
        (("2026-01-01 ", ""), ("holidays in ", "")),
        65_536,
        ("2026-01-01..2026-02-01\n",),
    ),
    "calendar hours": Parser(
        lambda text: hours_of(text.split("\n")),
        (("", ""), ("mon", "")),
        65_536,
        (",mon", "mon 08:00-09:00\n"),
    ),
    "answer": Parser(
        lambda text: recorded(None, text.encode("utf-8", "replace")),
        (
            ("", ""),
            ("NEEDS YOU: x [", "]"),
            ("NEEDS YOU: ", "x"),
            ("", "nothing to do."),
            ("nothing to do", "x"),
        ),
    ),
    "answer on a page": Parser(answer_text, (("", ""), ("**", ""), ("1. ", ""))),
    "answer in a prompt": Parser(
        lambda text: (
            fill_in(
                "{{ upstream.result }} {{ upstream.result }}", {"upstream": {"result": text}}, task="prompt"
            ),
            mark_text("answer", text, "x"),
            with_previous("{{ previous.result }}", text),
            prompt_with_answer(Approval(tool="ask_person", arguments={}, reply=text)),
        ),
        (("", ""), ("<", "")),
    ),
    "output": Parser(lambda text: (limits.clean_output(text), colours_in(text), limits.with_codes(text))),
    "masked text": Parser(
        lambda text: (Masker(("secret", "a" * 20)).mask(text), masked({"a": text, text[:99]: 1}))
    ),
    "crontab": Parser(
        read_crontab,
        (
            ("", ""),
            ("0 3 * * * ", ""),
            ("0 3 * * * ", " >/dev/null 2>&1"),
            ("A=", ""),
            ("# ", ""),
            ("@daily ", ""),
        ),
        small=2_000,
        parts=("0 3 * * * a\n", "A=b\n", "# a\n", ">/dev/null ", "2>&1 ", "-p ", "a;b ", "python "),
    ),
    "YAML": Parser(
        lambda text: read_jobs([("a.yaml", text)], "UTC", NOW),
        (("", ""), ("jobs:\n  a:\n    task: ", ""), ('jobs: {a: {prompt: "', '"}}')),
        parts=("  a:\n    every: 5m\n", "{a: ", "[", "? ", "!a ", "*a ", "<<: "),
    ),
    "checks": Parser(parse_checks, (('[{"name": "', '"}]'),), parts=('", "slug": "a"}, {"name": "',)),
    "body": Parser(
        read_body, (("", ""), ('{"a": "', '"}'), ("[", "1]")), 262_144, ("[", "1,", '{"a":', '"a",')
    ),
    "body with many names": Parser(lambda text: read_body(names(text)), longest=200_000, parts=("a",)),
    "body with a long name": Parser(lambda text: read_body(deep(text)), longest=200_000, parts=("a",)),
    "ping": Parser(
        lambda text: (
            pings.read(
                "POST",
                f"/ping/{text}",
                text.encode("utf-8", "replace"),
                late_by=text.encode("utf-8", "replace"),
            ),
            SLUG.fullmatch(text),
            limits.clean_output(text),
        ),
        longest=limits.PING_BODY_BYTES,
    ),
    "headers of a reply": Parser(
        lambda text: (
            CHARSET.search(text),
            retry_after(Reply(429, {"retry-after": text}, "", truncated=False)),
        ),
        (("", ""), ("charset=", ""), ("Sun, 15 Nov 2026 ", "")),
        65_536,
    ),
    "call of a tool": Parser(
        lambda text: (
            is_granted(["Bash(git *)"], "Bash", {"command": text}),
            grant_of("Bash", {"command": text}),
            covers("Bash(git *)", text),
        ),
        (("", ""), ("git ", "")),
    ),
    "argument of a tool": Parser(
        each(
            lambda text: read_moment(text, "UTC", NOW, "run_at"),
            lambda text: read_trigger("cron", {"expression": text}, "UTC", NOW, takes_phrases=False),
        ),
        longest=262_144,
    ),
    "address": Parser(each(link_problem, problem_with_url), (("", ""), ("https://", "")), 65_536),
    "alert rules": Parser(lambda text: read_rules(text), longest=65_536),
    "line of a log": Parser(hide_keys, (("", ""), ("/calendar/", "")), parts=("/a/", "/calendar/a")),
    **{
        name: Parser(read, (("", ""), ("every ", ""), ("every day at 9 ", "")), 1000)
        for name, read in {
            "cron": cron.normalise,
            "plan": lambda text: parse_plan(text, now=NOW, timezone="UTC"),
            "sentence": lambda text: parse_sentence(text, now=NOW, timezone="UTC"),
            "moment": lambda text: parse_moment(text, now=NOW, timezone="UTC"),
            "period": lambda text: parse_period(text, now=NOW, timezone="UTC"),
            "delay": parse_delay,
            "span": each(lambda text: read_span(text, NOW), lambda text: read_end(text, NOW, "UTC")),
            "event times": read_event_times,
            "ending": read_ending,
            "zone": zone_named,
            "ask": read_ask,
        }.items()
    },
    **dict(of_streams()),
}


# Modules with regular expressions that no parser above reaches, and why no stranger can send them long text.
OPERATOR = "reads what the operator or a developer has written"
OWN_TEXT = "reads what Cronty has written"
SHORT = "reads a text whose length is limited before"
ONE_WAY = "its patterns can match a text in one way only"
BY_PATTERN = "a parser above uses its pattern directly"
OTHERS: dict[str, Sequence[str]] = {
    OPERATOR: (
        "cronty_site.environment",
        "cronty_site.terminal.arguments",
        "cronty_site.terminal.elsewhere.reports",
        "cronty_site.terminal.elsewhere.server",
        "schedules.channels.operator_services",
        "schedules.management.arguments",
        "schedules.management.doctor.host",
        "schedules.management.running_server",
        "schedules.tasks.commands.definitions",
        "schedules.tasks.operator_files.tables",
        "schedules.tasks.outbound.destinations",
        "schedules.tasks.registry",
    ),
    OWN_TEXT: (
        "schedules.api.endpoints",
        "schedules.mcp.stdio",
        "cronty_site.terminal.output",
        "schedules.mcp.answers",
        "schedules.mcp.wording",
        "schedules.models.job_texts",
        "schedules.services.files.writing",
        "schedules.templatetags.cronty_times",
        "schedules.when.cron_warnings",
        "schedules.when.phrase_writer",
    ),
    SHORT: (
        "schedules.services.listing",
        "schedules.services.reading",
        "schedules.admin.bases",
        "schedules.channels.kinds",
        "schedules.services.event_feed",
        "schedules.services.jobs.masked_arguments",
        "schedules.services.jobs.references",
        "schedules.services.people.tokens",
        "schedules.services.text_search",
        "schedules.tasks.argument_types",
        "schedules.tasks.commands.templates",
        "schedules.tasks.outbound.headers",
        "schedules.web.oauth_clients",
    ),
    ONE_WAY: (
        "schedules.mcp.tools.many",
        "schedules.mcp.tools.notifications",
    ),
    BY_PATTERN: (
        "schedules.tasks.heartbeat",
        "schedules.tasks.outbound.requests",
    ),
}


def cost(parser: Parser, text: str) -> float:
    begin = time.thread_time()
    # That parsers refuse with a reason is tested elsewhere.
    with suppress(Exception):
        parser.read(text)
    return time.thread_time() - begin


def counts(parser: Parser, part: str, around: int, longest: int) -> Iterator[int]:
    """Yield how often a part is repeated in texts of growing length, each twice as long as the one before."""
    room = min(longest, parser.longest) - around
    length = room
    while length > 1000:
        length //= 2
    while length <= room:
        yield max(1, length // len(part))
        length *= 2


def growth(parser: Parser, text_of: Callable[[int], str], count: int, enough: float) -> float:
    """Return how much longer twice the text takes: the mean of two doublings, because one may leave a cache.

    The least of some tries counts: others use the processor, too.
    """
    least_quarter = least_whole = float("inf")
    for number in range(TRIES):
        # Another length each time, because some parsers remember what they have read.
        fewer = number % max(1, count // 20)
        least_quarter = min(least_quarter, cost(parser, text_of((count - fewer) // 4)))
        least_whole = min(least_whole, cost(parser, text_of(count - fewer)))
        if least_whole < enough**2 * least_quarter:
            break
    return math.sqrt(least_whole / least_quarter)


@pytest.fixture
def no_collections() -> Iterator[None]:
    """How often Python collects garbage depends on all objects, and the longer text would meet it first."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("longest", sizes(0, MEGABYTE))
@pytest.mark.parametrize("name", PARSERS)
def test_twice_the_text_takes_at_most_about_twice_the_time(name: str, longest: int):
    parser = PARSERS[name]
    most = MAX_RATIO if longest else MAX_RATIO_OF_SMALL
    for before, after in parser.around:
        for part in (*parser.parts, *(PARTS[len(name) % STEP :: STEP] if longest else NASTY)):
            text_of = lambda count, before=before, part=part, after=after: before + part * count + after  # noqa: E731
            for count in counts(parser, part, len(before + after), longest or parser.small):
                took = cost(parser, text_of(count))
                if took >= ENOUGH_SECONDS:
                    break
            if took >= SHORTEST_SECONDS and count > 3:
                ratio = growth(parser, text_of, count, most)
                assert ratio <= most, f"{ratio:.1f} times as long: {before!r} {part!r} {after!r} {count}"


def with_regular_expressions() -> set[str]:
    found = set()
    for path in (path for folder in ("schedules", "cronty_site") for path in (ROOT / folder).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        if "re" in names | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}:
            found.add(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return found


@pytest.mark.verify
def test_every_module_with_regular_expressions_is_measured_or_reads_no_long_text_of_strangers():
    reached: set[str] = set()

    def note(frame: Any, event: str, argument: object) -> None:
        reached.add(frame.f_globals.get("__name__", ""))

    # Imports take long under a profiler.
    usual_name("holidays in Spain")
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for parser in PARSERS.values():
            for start, end in parser.around:
                for part in (*parser.parts, "every 5m", "http://a.b/ **a**"):
                    cost(parser, f"{start}{part}{end}")
    finally:
        sys.setprofile(before)

    others = {name for names in OTHERS.values() for name in names}
    assert with_regular_expressions() - reached - others == set()
    assert others - with_regular_expressions() == set()
