"""Crontabs of real life: every line is taken over as cron means it, or listed with the reason."""

import tomllib

import pytest

from schedules.files.crontab import Crontab, parse_crontab
from schedules.files.crontab_jobs import make_jobs, toml_of
from schedules.tasks.commands.definitions import parse
from schedules.when.triggers import Cron
from tests.files.crontabs import REAL_LIFE

PATH = "/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin"


def read(text: str, **options) -> Crontab:
    return parse_crontab(
        text, **{"timezone": "Europe/Vienna", "user": "olga", "home": "/home/olga"} | options
    )


@pytest.fixture(scope="module")
def real() -> Crontab:
    return read(REAL_LIFE)


def entry_at(crontab: Crontab, part: str):
    (found,) = [entry for entry in crontab.entries if part in entry.command]
    return found


def reason_for(crontab: Crontab, part: str) -> str:
    (found,) = [each.reason for each in crontab.left_out if part in each.text]
    return found


def test_every_line_is_taken_over_or_listed(real):
    lines = REAL_LIFE.splitlines()
    active = [n for n, text in enumerate(lines, 1) if text.strip() and not text.lstrip().startswith("#")]
    settings = ("SHELL", "PATH", "HOME", "BACKUP_DIR", "CRON_TZ", "TZ", "LANG")
    settled = {n for n in active if lines[n - 1].startswith(settings)}

    handled = {entry.line for entry in real.entries} | {each.line for each in real.left_out}

    assert len(active) > 50
    assert handled | settled == set(active)
    assert not {entry.line for entry in real.entries} & {each.line for each in real.left_out}


def test_plain_commands_need_no_shell(real):
    assert entry_at(real, "backup.sh").words == ["/usr/local/bin/backup.sh", "--all"]
    assert entry_at(real, "rsync").words == ["/usr/bin/rsync", "-a", "--delete", "/srv/", "backup@nas:/srv/"]
    assert entry_at(real, "berlin").words == ["/opt/berlin.sh", "quoted argument", "single one"]
    assert entry_at(real, "tab.sh").words == ["/opt/tab.sh", "tabbed"]
    assert entry_at(real, "restic").words == ["restic", "prune"]
    assert entry_at(real, "relative").words == ["/home/olga/bin/relative.sh", "now"]


@pytest.mark.parametrize(
    "part",
    ["pg_dump", "report.sh", "artisan", "month-end", "half-minute", "DISPLAY", "FOO=bar", ".profile", "awk"],
)
def test_shell_syntax_needs_the_shell_of_the_crontab(real, part):
    entry = entry_at(real, part)

    assert (entry.words, entry.shell) == (None, "/bin/bash")


def test_percent_signs_are_unescaped_and_standard_input_is_refused(real):
    assert "$(date +%F)" in entry_at(real, "pg_dump").command
    assert "standard input" in reason_for(real, "Weekly")


def test_zone_environment_and_comment_belong_to_the_lines_below(real):
    nightly, bell, berlin = (entry_at(real, part) for part in ("backup.sh", "bell.sh close", "berlin"))

    assert (nightly.timezone, bell.timezone, berlin.timezone) == (
        "Europe/Vienna",
        "America/New_York",
        "Europe/Berlin",
    )
    assert nightly.comment == "Nightly backup"
    assert entry_at(real, "rsync").comment == ""
    assert entry_at(real, "nextcloud").comment == ""
    assert nightly.environment == {"PATH": PATH, "HOME": "/home/olga", "BACKUP_DIR": "/srv/backups"}
    assert berlin.environment["TZ"] == "UTC"
    assert berlin.environment["LANG"] == "de_DE.UTF-8"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("MAILTO", "mail is not sent"),
        ("RANDOM_DELAY", "without a random delay"),
        ("start-tunnel", "@reboot has no time"),
        ("never.sh", "never runs"),
        ("bad-hour", "out of range"),
        ("random.sh", "does not belong in a cron expression"),
        ("go-style", "this macro is unknown"),
        ("quartz", '"?" is not standard cron'),
        ("six-fields", "a sixth field"),
        ("this is not", "the minute field does not know"),
        ("mars.sh", "CRON_TZ=Mars/Olympus"),
    ],
)
def test_reasons_are_given(real, part, reason):
    assert reason in reason_for(real, part)


@pytest.mark.parametrize("line", ["0 5 * *", "this is no line", "@daily", "* * * * *"])
def test_line_without_a_command_is_left_out(line):
    assert [each.reason for each in read(line).left_out] == [
        "this is neither five fields and a command, nor a variable"
    ]


def test_schedules_are_cronty_s_own(real):
    for entry in real.entries:
        assert Cron(entry.schedule, entry.timezone).words()
    assert entry_at(real, "ten.sh").schedule == "10-50/10 * * * *"
    assert entry_at(real, "without-log").schedule == "*/30 * * * *"


def test_lines_of_other_users_are_left_out():
    system = (
        "17 * * * * root cd / && run-parts /etc/cron.hourly\n0 1 * * * olga /opt/mine.sh\n0 2 * * * alone\n"
    )

    found = read(system, has_users=True)

    assert [entry.command for entry in found.entries] == ["/opt/mine.sh"]
    assert [each.reason for each in found.left_out] == [
        "it runs as root, but Cronty runs commands as olga",
        "a line of a system crontab names a user before the command",
    ]


def test_commands_and_jobs_are_valid_and_made_once(real):
    commands, jobs = make_jobs(real.entries, {}, lambda name: name == "restic")
    text = toml_of(commands)

    parsed = parse(text)
    assert sorted(parsed) == sorted(commands)
    assert len(jobs) == len(real.entries)
    assert "restic-2" in commands
    assert make_jobs(real.entries, tomllib.loads(text), lambda name: name == "restic") == ({}, jobs)


def test_commands_run_what_cron_would_run(real):
    commands, jobs = make_jobs(real.entries, {}, lambda name: False)
    parsed = parse(toml_of(commands))

    ran = [parsed[job["task"]].argument_list({}) for job in jobs.values()]

    for entry, arguments in zip(real.entries, ran, strict=True):
        assert arguments == (entry.words or ["/bin/bash", "-c", entry.command])
    assert parsed[jobs["Nightly backup"]["task"]].variables({})["BACKUP_DIR"] == "/srv/backups"


def test_names_come_from_comments_and_are_unique(real):
    _, jobs = make_jobs(real.entries, {}, lambda name: False)

    assert "Nightly backup" in jobs
    assert {"New York opening bell", "New York opening bell (2)"} <= set(jobs)
    # The same command at two times is one command.
    assert jobs["New York opening bell"]["task"] == jobs["New York opening bell (2)"]["task"]
    assert jobs["Nightly backup"] == {
        "schedule": "0 3 * * *",
        "timezone": "Europe/Vienna",
        "task": "backup.sh",
        "overlap": "allow",
        "catch_up": "none",
        "pause_after_failures": 0,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "#\n",
        "\x00\n",
        "* * * * *\n",
        "* * * * * \n",
        "@daily\n",
        "=\n",
        "A=\n",
        "'A=1\n",
        "* " * 10_000,
        "\ufeff",
        "@@@ x",
        "% % % % % %",
    ],
)
def test_odd_text_is_never_an_error(text):
    found = read(text)

    assert found.entries == [] or all(entry.command for entry in found.entries)


@pytest.mark.parametrize(
    "header",
    [
        "# m h  dom mon dow   command",
        "# m h dom mon dow user command",
        "#min hour day month weekday",
        "# .---------------- minute (0 - 59)\n# |  .------------- hour (0 - 23)\n# |  |\n# *  *  user-name command",
    ],
)
def test_line_that_names_the_fields_is_no_comment(header):
    found = read(f"# For more information see the manual pages\n#\n{header}\n0 3 * * * /bin/true\n")

    assert [entry.comment for entry in found.entries] == [""]


def test_empty_zone_is_that_of_the_host_again():
    found = read(
        "CRON_TZ=Asia/Tokyo\n0 3 * * * a\nCRON_TZ=\n0 4 * * * b\nCRON_TZ=Mars/X\nCRON_TZ=\n0 5 * * * c\n"
    )

    assert [entry.timezone for entry in found.entries] == ["Asia/Tokyo", "Europe/Vienna", "Europe/Vienna"]


def test_empty_mailto_loses_nothing():
    assert read('MAILTO=""\nMAILTO=\n0 3 * * * a\n').left_out == []


def test_fields_that_only_cronty_knows_are_not_taken_over():
    lines = ["0 7 L * *", "0 7 * * 5L", "0 7 * * MON#1", "0 7 * JUL *", "0 7 1 jul,apr mon"]
    found = read("".join(f"{schedule} /bin/true\n" for schedule in lines))

    assert [each.line for each in found.left_out] == [1, 2, 3]
    assert "cron knows neither L nor #" in found.left_out[0].reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/bin/echo server1>/dev/null 2>&1", ["/bin/echo", "server1"]),
        ("/bin/echo server 1>/dev/null", ["/bin/echo", "server"]),
        ("/bin/echo server &>/dev/null", ["/bin/echo", "server"]),
        ("/bin/echo server &", ["/bin/echo", "server"]),
        ("/bin/echo server2>&1", None),
        ("/bin/echo server 3>/dev/null", None),
        ("/bin/echo a \\&", None),
        ("/bin/echo server >/dev/null 2>&1 &", ["/bin/echo", "server"]),
    ],
)
def test_arguments_are_kept_beside_what_only_silences(line, words):
    [entry] = read(f"0 3 * * * {line}\n").entries

    assert entry.words == words


@pytest.mark.parametrize("variable", ["SHELL=/usr/local/bin/wrapper", "BASH_ENV=/home/olga/.bashrc"])
def test_unusual_shell_starts_plain_commands_too(variable):
    [entry] = read(f"{variable}\n0 3 * * * /bin/echo hello\n").entries

    assert entry.words is None
