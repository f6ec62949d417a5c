"""Crontabs of real life: every line is taken over as cron means it, or listed with the reason."""

import tomllib

import pytest

from schedules.limits import NAME_LENGTH
from schedules.services.files.crontab import Crontab, parse_crontab
from schedules.services.files.crontab_jobs import make_jobs, toml_of
from schedules.tasks.commands.definitions import parse
from tests.services.files.crontabs import REAL_LIFE

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
    (found,) = [each.reason for each in crontab.left_out + crontab.changed if part in each.text]
    return found


def test_every_line_is_taken_over_or_listed(real):
    lines = REAL_LIFE.splitlines()
    active = [n for n, text in enumerate(lines, 1) if text.strip() and not text.lstrip().startswith("#")]
    settings = ("SHELL", "PATH", "HOME", "BACKUP_DIR", "CRON_TZ", "TZ", "LANG", "RANDOM_DELAY")
    settled = {n for n in active if lines[n - 1].startswith(settings)}

    handled = {entry.line for entry in real.entries} | {each.line for each in real.left_out + real.changed}

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


def test_shell_syntax_needs_the_shell_of_the_crontab(real):
    for part in [
        "pg_dump",
        "report.sh",
        "artisan",
        "month-end",
        "half-minute",
        "DISPLAY",
        "FOO=bar",
        ".profile",
        "awk",
    ]:
        entry = entry_at(real, part)

        assert (entry.words, entry.shell) == (None, "/bin/bash")


@pytest.mark.parametrize(
    ("line", "command", "given"),
    [
        (r"date +\%F", "date +%F", None),
        ("mail all%Hello team,%%see you at ten.%", "mail all", "Hello team,\n\nsee you at ten.\n"),
        (r"cat%50\%%of {x}", "cat", "50%\nof {x}\n"),
        ("cat%", "cat", ""),
    ],
)
def test_text_after_a_percent_sign_is_standard_input(line, command, given):
    [entry] = read(f"0 3 * * * {line}\n").entries

    assert (entry.command, entry.input) == (command, given)
    commands, _ = make_jobs([entry], {}, lambda name: False)
    [parsed] = parse(toml_of(commands)).values()
    assert parsed.standard_input({}) == given


def test_random_range_becomes_one_value_that_stays():
    for schedule, lowest, highest in [("0~30 5 * * *", 0, 30), ("50~ 5 * * *", 50, 59)]:
        lines = "".join(f"{schedule} /opt/random.sh {number}\n" for number in range(40))
        minutes = [int(entry.schedule.split()[0]) for entry in read(lines).entries]

        assert len(minutes) == 40
        assert lowest <= min(minutes)
        assert max(minutes) <= highest
        assert len(set(minutes)) > 3 or lowest == highest
        assert [int(entry.schedule.split()[0]) for entry in read(lines).entries] == minutes
        elsewhere = [int(entry.schedule.split()[0]) for entry in read(lines, host="other").entries]
        assert elsewhere != minutes or lowest == highest


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [("30~0 5 * * *", "runs backwards"), ("0~99 5 * * *", "99 is out of range"), ("0~9/2 5 * * *", "9/2")],
)
def test_wrong_random_range_is_left_out(schedule, reason):
    [left_out] = read(f"{schedule} /opt/x.sh\n").left_out

    assert reason in left_out.reason


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


def test_reasons_are_given(real):
    for part, reason in [
        ("MAILTO", "mail is not sent"),
        ("never.sh", "never runs"),
        ("bad-hour", "out of range"),
        ("go-style", "this macro is unknown"),
        ("quartz", '"?" is not standard cron'),
        ("six-fields", "a sixth field"),
        ("this is not", "the minute field does not know"),
        ("mars.sh", "CRON_TZ=Mars/Olympus"),
    ]:
        assert reason in reason_for(real, part)


def test_line_without_a_command_is_left_out():
    for line in ("0 5 * *", "this is no line", "@daily", "* * * * *"):
        [left_out] = read(line).left_out
        assert left_out.reason == "this is neither five fields and a command, nor a variable"


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


def test_lines_of_other_users_are_taken_over_by_root():
    system = "HOME=/srv\n0 1 * * * olga ./mine.sh\n0 2 * * * nobody-here /opt/x.sh\n"
    homes = {"olga": "/home/olga"}

    found = read(system, user="root", home="/root", has_users=True, home_of=homes.get)
    own_home = read(system.removeprefix("HOME=/srv\n"), user="root", has_users=True, home_of=homes.get)

    [entry] = found.entries
    assert (entry.user, entry.directory, entry.words) == ("olga", "/srv", ["/srv/mine.sh"])
    assert [each.directory for each in own_home.entries] == ["/home/olga"]
    assert [each.reason for each in found.left_out] == [
        "it runs as nobody-here, but Cronty runs commands as root"
    ]
    commands, _ = make_jobs(found.entries, {}, lambda name: False)
    assert [command.user for command in parse(toml_of(commands)).values()] == ["olga"]


def test_commands_and_jobs_are_valid_and_made_once(real):
    commands, jobs = make_jobs(real.entries, {}, lambda name: name == "restic-prune")
    text = toml_of(commands)

    parsed = parse(text)
    assert sorted(parsed) == sorted(commands)
    assert len(jobs) == len(real.entries)
    assert "restic-prune-2" in commands
    assert make_jobs(real.entries, tomllib.loads(text), lambda name: name == "restic-prune") == ({}, jobs)


def test_commands_run_what_cron_would_run(real):
    commands, jobs = make_jobs(real.entries, {}, lambda name: False)
    parsed = parse(toml_of(commands))

    ran = [parsed[job["task"]].argument_list({}) for job in jobs.values()]

    for entry, arguments in zip(real.entries, ran, strict=True):
        assert arguments == (entry.words or ["/bin/bash", "-c", entry.command])
    assert parsed[job_called("Nightly backup", jobs)["task"]].variables({})["BACKUP_DIR"] == "/srv/backups"


@pytest.mark.parametrize("between", ["SHELL=/bin/bash\n", "\n", "MAILTO=root\n# "])
def test_setting_or_empty_line_ends_a_comment(between):
    found = read(f"# Machines of the shop\n{between}# Rotate logs\n@daily /opt/rotate\n")

    assert [entry.comment for entry in found.entries] == ["Rotate logs"]


def job_called(name, jobs):
    return next(job for job in jobs.values() if job["name"] == name)


def test_names_come_from_comments_and_are_unique(real):
    _, jobs = make_jobs(real.entries, {}, lambda name: False)

    bells = [job_called(name, jobs) for name in ("New York opening bell", "New York opening bell (2)")]
    # The same command at two times is one command.
    assert bells[0]["task"] == bells[1]["task"]
    assert jobs["0 3 * * * /usr/local/bin/backup.sh --all"] == {
        "name": "Nightly backup",
        "schedule": "0 3 * * *",
        "timezone": "Europe/Vienna",
        "task": "nightly-backup",
        "overlap": "allow",
        "catch_up": "none",
        "pause_after_failures": 0,
    }


@pytest.mark.parametrize(
    ("line", "name", "task"),
    [
        ("/opt/bin/backup.sh --full", "/opt/bin/backup.sh --full", "backup.sh-full"),
        ("cd /srv && make -s", "cd /srv && make -s", "cd-srv-make-s"),
        ("/usr/bin/mysqldump -phunter2 shop", "mysqldump", "mysqldump"),
        ("curl https://olga:hush@nas/x", "curl", "curl"),
        ("TOKEN=hush /opt/x", "x", "x"),
        ("x" * 5000, "x" * 80, "x" * 40),
    ],
)
def test_line_without_a_comment_is_named_after_its_command(line, name, task):
    _, jobs = make_jobs(read(f"0 3 * * * {line}\n").entries, {}, lambda name: False)

    [(key, job)] = jobs.items()
    assert (job["name"], job["task"]) == (name, task)
    assert len(key) < NAME_LENGTH


def test_another_comment_renames_the_job_and_another_time_is_another_job():
    def keys(text):
        return list(make_jobs(read(text).entries, {}, lambda name: False)[1])

    before = keys("# Backup\n0 3 * * * /opt/x\n0 5 * * * /opt/x\n")

    assert keys("# At night\n0 3 * * * /opt/x\n# Morning\n0 5 * * * /opt/x\n") == before
    assert keys("0 5 * * * /opt/x\n0 3 * * * /opt/x\n") == before[::-1]
    assert keys("# Backup\n0 4 * * * /opt/x\n")[0] not in before


def test_odd_text_is_never_an_error():
    for text in [
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
    ]:
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


def test_fields_that_only_cronty_knows_are_not_taken_over():
    lines = ["0 7 L * *", "0 7 * * 5L", "0 7 * * MON#1", "0 7 * JUL *", "0 7 1 jul,apr mon"]
    found = read("".join(f"{schedule} /bin/true\n" for schedule in lines))

    assert [each.line for each in found.left_out] == [1, 2, 3]
    assert "cron knows neither L nor #" in found.left_out[0].reason


def test_arguments_are_kept_beside_what_only_silences():
    for line, words in [
        ("/bin/echo server1>/dev/null 2>&1", ["/bin/echo", "server1"]),
        ("/bin/echo server 1>/dev/null", ["/bin/echo", "server"]),
        ("/bin/echo server &>/dev/null", ["/bin/echo", "server"]),
        ("/bin/echo server &", ["/bin/echo", "server"]),
        ("/bin/echo server2>&1", None),
        ("/bin/echo server 3>/dev/null", None),
        ("/bin/echo a \\&", None),
        ("/bin/echo server >/dev/null 2>&1 &", ["/bin/echo", "server"]),
    ]:
        [entry] = read(f"0 3 * * * {line}\n").entries

        assert entry.words == words


@pytest.mark.parametrize("variable", ["SHELL=/usr/local/bin/wrapper", "BASH_ENV=/home/olga/.bashrc"])
def test_unusual_shell_starts_plain_commands_too(variable):
    [entry] = read(f"{variable}\n0 3 * * * /bin/echo hello\n").entries

    assert entry.words is None


def test_random_delay_is_the_spread_of_the_lines_below():
    crontab = read("0 1 * * * a\nRANDOM_DELAY=30\n0 2 * * * b\nRANDOM_DELAY=0\n0 3 * * * c\n")

    _, jobs = make_jobs(crontab.entries, {}, lambda name: False)

    assert [job.get("spread") for job in jobs.values()] == [None, "30m", None]
    assert crontab.left_out == crontab.changed == []


def test_random_delay_longer_than_the_schedule_allows_is_shortened_and_listed():
    crontab = read("RANDOM_DELAY=45\n*/15 * * * * a\n")

    assert [entry.spread.total_seconds() for entry in crontab.entries] == [900]
    assert "line 2 runs again after 15 minutes" in reason_for(crontab, "RANDOM_DELAY=45")
    assert crontab.left_out == []


def test_random_delay_that_is_no_number_is_listed():
    crontab = read("RANDOM_DELAY=soon\n0 2 * * * b\n")

    assert "not a number of minutes" in reason_for(crontab, "RANDOM_DELAY")
    assert not crontab.entries[0].spread
