"""The commands in force: read again when the file changes, and kept while it is broken."""

import logging
import os
import stat
import time
from pathlib import Path

import pytest

from schedules.tasks import registry
from schedules.tasks.commands.catalog import Catalog, catalog, task_of
from schedules.tasks.commands.definitions import parse
from schedules.tasks.operator_files.tables import OperatorFileError

TRY = '[{name}]\ndescription = "Try it."\nprogram = "/bin/true"\n'


def names(found: Catalog) -> list[str]:
    return [task.name for task in found.all()]


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture
def commands(commands_file: Path) -> Catalog:
    write(commands_file, TRY.format(name="one"))
    found = Catalog()
    assert names(found) == ["one"]
    return found


def settle(found: Catalog) -> list[str]:
    """Look twice: what changed since the last look may still be being written."""
    names(found)
    return names(found)


def test_changed_file_is_read_without_a_restart(commands, commands_file):
    write(commands_file, TRY.format(name="one") + TRY.format(name="two"))

    assert settle(commands) == ["one", "two"]


def test_idle_worker_knows_a_new_command_at_its_first_look(commands, commands_file):
    write(commands_file, TRY.format(name="two"))
    os.utime(commands_file, times=(time.time() - 2,) * 2)

    assert commands.get("two") is not None


def test_new_command_is_known_at_once_and_a_partial_file_is_no_problem(commands, commands_file):
    write(commands_file, TRY.format(name="two") + "[three")
    os.utime(commands_file, times=(time.time() + 600,) * 2)
    assert (commands.get("two"), commands.problem) == (None, "")

    write(commands_file, TRY.format(name="two"))

    assert commands.get("two") is not None


def test_file_that_changes_between_two_looks_is_left_alone_until_it_stays_the_same(commands, commands_file):
    whole = TRY.format(name="one") + TRY.format(name="two")
    seen = []
    for end in range(10, len(whole), 10):
        write(commands_file, whole[:end])
        seen.append(names(commands))

    assert seen == [["one"]] * len(seen)
    write(commands_file, whole)
    assert settle(commands) == ["one", "two"]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param(b"[half", "This is not TOML", id="half a file"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="not text"),
        pytest.param(b'[one]\nprogram = "x/y"', "one.program: give the whole path", id="mistake"),
        pytest.param(TRY.format(name="notify").encode(), "there is a task of this name already", id="task"),
        pytest.param(
            TRY.format(name="one").encode() + b'arguments = ["{x}"]\n[one.parameters.x]\npattern = "(["',
            "one: ",
            id="pattern",
        ),
    ],
)
def test_broken_file_keeps_the_last_good_one_and_says_so_once(commands, commands_file, broken, words, caplog):
    commands_file.write_bytes(broken)

    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            assert names(commands) == ["one"]

    assert words in commands.problem
    assert "the last good one stays in force" in commands.problem
    assert [record.getMessage() for record in caplog.records] == [commands.problem]
    write(commands_file, TRY.format(name="two"))
    assert settle(commands) == ["two"]
    assert commands.problem == ""


def test_last_good_file_stays_in_force_after_a_restart(commands, commands_file, caplog):
    settle(commands)
    write(commands_file, TRY.format(name="two") + "timeout = 'soon'\n")

    restarted = Catalog()

    assert names(restarted) == ["one"]
    assert restarted.is_usable
    assert (
        f"The file {commands_file} cannot be used, and the last good one stays in force" in restarted.problem
    )
    assert "line 4: two.timeout: write a duration" in restarted.problem
    assert restarted.short_problem == (
        "The file commands.toml, line 4, cannot be used, so the last good one stays in force."
    )
    write(commands_file, TRY.format(name="two"))
    assert settle(restarted) == ["two"]
    assert restarted.short_problem == ""


def test_copy_is_private_whole_and_replaced_with_the_file(commands, commands_file, settings):
    settle(commands)
    copy = Path(settings.CRONTY_DATA) / "commands.last-good.toml"
    assert copy.read_text().endswith("\n" + TRY.format(name="one"))

    write(commands_file, TRY.format(name="two"))
    settle(commands)

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert copy.read_text().endswith("\n" + TRY.format(name="two"))
    assert [path.name for path in copy.parent.glob(".commands*")] == []


@pytest.mark.parametrize("spoil", ["no copy", "copy of another file", "others can change it", "broken copy"])
def test_without_a_usable_copy_a_broken_file_stops_all_commands_and_says_so(
    commands, commands_file, settings, spoil
):
    settle(commands)
    copy = Path(settings.CRONTY_DATA) / "commands.last-good.toml"
    match spoil:
        case "no copy":
            copy.unlink()
        case "copy of another file":
            copy.write_text(copy.read_text().replace(str(commands_file), "/elsewhere/commands.toml"))
        case "others can change it":
            copy.chmod(0o666)
        case _:
            copy.write_text(copy.read_text() + "[half")
    write(commands_file, "[half")

    restarted = Catalog()

    assert names(restarted) == []
    assert not restarted.is_usable
    assert "there is no good copy of it, so no command can run: line 1: This is not TOML" in restarted.problem
    assert restarted.short_problem == "The file commands.toml, line 1, cannot be used, so no command can run."


def test_commands_of_a_deleted_file_do_not_come_back(commands, commands_file):
    settle(commands)
    commands_file.unlink()
    assert names(Catalog()) == []
    write(commands_file, "[half")

    assert names(Catalog()) == []


def test_unknown_task_names_the_broken_file(commands_file, settings):
    Path(settings.CRONTY_DATA, "commands.last-good.toml").unlink(missing_ok=True)
    write(commands_file, "[half")
    catalog.refresh()

    assert "The file commands.toml, line 1, cannot be used" in registry.unknown_with_choices("poll")


def test_data_folder_that_cannot_be_written_is_logged_and_stops_nothing(
    commands_file, settings, tmp_path, caplog
):
    settings.CRONTY_DATA = tmp_path / "nowhere"
    write(commands_file, TRY.format(name="one"))

    assert settle(Catalog()) == ["one"]
    assert "would stop all commands after a restart" in caplog.text


def test_deleted_file_ends_its_commands(commands, commands_file):
    commands_file.unlink()

    assert settle(commands) == []
    assert commands.problem == ""


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_file_that_others_can_change_is_refused(commands, commands_file, mode):
    write(commands_file, TRY.format(name="two"))
    commands_file.chmod(mode)
    os.utime(commands_file, ns=(1, 1))

    assert settle(commands) == ["one"]
    assert "can change it" in commands.problem


ANOTHER_USER = 12345
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")


@needs_root
def test_file_of_another_user_is_refused(commands, commands_file):
    write(commands_file, TRY.format(name="two"))
    os.chown(commands_file, ANOTHER_USER, ANOTHER_USER)

    assert settle(commands) == ["one"]
    assert "can change it" in commands.problem


@needs_root
@pytest.mark.parametrize("is_folder", [False, True])
def test_link_that_another_user_made_is_refused(commands, commands_file, settings, tmp_path, is_folder):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    write(theirs / "commands.toml", TRY.format(name="two"))
    link = tmp_path / "link"
    link.symlink_to(theirs if is_folder else theirs / "commands.toml")
    os.chown(link, ANOTHER_USER, ANOTHER_USER, follow_symlinks=False)
    settings.CRONTY_COMMANDS_FILE = str(link / "commands.toml" if is_folder else link)

    # Without a good copy either: that belongs to the file at the other path.
    assert settle(commands) == []
    assert f"Another user made the link {link}" in commands.problem


def test_own_links_are_followed_and_may_be_relative(commands, settings, tmp_path):
    (tmp_path / "version").mkdir()
    write(tmp_path / "version" / "commands.toml", TRY.format(name="two"))
    (tmp_path / "current").symlink_to("version")
    (tmp_path / "version" / "link.toml").symlink_to("../current/commands.toml")
    settings.CRONTY_COMMANDS_FILE = str(tmp_path / "version" / "link.toml")

    assert settle(commands) == ["two"]


def test_pipe_in_place_of_the_file_is_refused_and_nobody_waits_for_it(commands, commands_file):
    commands_file.unlink()
    os.mkfifo(commands_file, 0o600)

    assert settle(commands) == ["one"]
    assert "It is not a file" in commands.problem


def test_no_more_of_a_huge_file_is_read_than_may_be_used(commands, commands_file):
    commands_file.touch(mode=0o600)
    os.truncate(commands_file, 1 << 40)

    assert settle(commands) == ["one"]
    assert "larger than 1,000,000 bytes" in commands.problem


def test_commands_are_tasks_with_the_schema_of_their_parameters(use_commands):
    use_commands(
        TRY.format(name="copy")
        + 'arguments = ["--mode={mode}", "--level={level}", { if = "fast", arguments = ["--fast"] }, "{from_path}"]\n'
        "timeout = 90\nattempts = 2\nallow = ['everyone']\n[copy.parameters]\n"
        "from_path = { description = 'Where from.', pattern = '/[a-z/]+' }\n"
        "mode = { choices = ['all', 'new'], default = 'new' }\n"
        "level = { type = 'integer', min = 1, max = 9, default = 5 }\n"
        "fast = { type = 'boolean', optional = true }\n"
    )

    task = registry.get("copy")
    assert task is not None
    schema = task.schema
    assert (task.lane, task.attempts, task.timeout.total_seconds()) == ("command", 2, 90)
    assert schema["required"] == ["from_path"]
    assert schema["properties"]["from_path"]["description"] == "Where from."
    assert schema["properties"]["mode"]["enum"] == ["all", "new"]
    assert (schema["properties"]["level"]["minimum"], schema["properties"]["level"]["maximum"]) == (1, 9)
    assert "copy" in [each.name for each in registry.all_tasks()]
    assert registry.command_names() == ["copy"]


def test_arguments_are_checked_when_a_job_is_scheduled():
    for kwargs, words in [
        ({"from_path": "/home"}, None),
        ({"from_path": "/home", "mode": "all", "level": 9}, None),
        ({}, "from_path: required"),
        ({"from_path": "home"}, "from_path: string should match pattern"),
        ({"from_path": "/home\n"}, "from_path: string should match pattern"),
        ({"from_path": "/home", "mode": "none"}, "mode: input should be 'all' or 'new'"),
        ({"from_path": "/home", "level": 0}, "level: input should be greater than or equal to 1"),
        ({"from_path": "/home", "level": "5"}, "level: input should be a valid integer"),
        ({"from_path": "/home", "shell": True}, "shell: unknown argument"),
        ({"from_path": "/home", "run": {}}, "run: unknown argument"),
        ({"from_path": "/home", "note": "-rf"}, "note: must not begin with -"),
        ({"from_path": "/home", "note": "--"}, "note: must not begin with -"),
        ({"from_path": "/home", "note": "a\0b"}, "note: remove the control character"),
        ({"from_path": "/home", "note": "a\nb"}, "note: remove the control character"),
        ({"from_path": "/home", "note": "a\u202eb"}, "note: remove the invisible character"),
        ({"from_path": "/home", "note": "x" * 1001}, "note: string should have at most 1000"),
        ({"from_path": "/home", "shift": -1.5}, "shift: must not begin with -"),
        ({"from_path": "/home", "note": "$(reboot) * `id` ; ☃ ${HOME}"}, None),
    ]:
        text = (
            TRY.format(name="copy")
            + 'arguments = ["{note}", "--level={level}", "{mode}", "{shift}", "--", "{from_path}"]\n[copy.parameters]\n'
            "from_path = { pattern = '/[a-z/]+' }\nmode = { choices = ['all', 'new'], default = 'new' }\n"
            "level = { type = 'integer', min = 1, default = 5 }\nnote = { default = '' }\n"
            "shift = { type = 'number', default = 0.5 }\n"
        )
        task = task_of("copy", parse(text)["copy"])

        problems = task.check([], kwargs)

        assert bool(problems) == bool(words)
        assert not words or any(problem.startswith(words) for problem in problems), problems


def test_command_cannot_take_the_name_of_a_task():
    with pytest.raises(OperatorFileError, match="notify: there is a task of this name already"):
        task_of("notify", parse(TRY.format(name="notify"))["notify"])


def test_file_that_is_no_longer_named_is_not_read(commands, commands_file, settings):
    write(commands_file, TRY.format(name="two"))
    settings.CRONTY_COMMANDS_FILE = ""

    assert (names(commands), commands.get("two")) == ([], None)


def test_without_a_file_there_are_no_commands(settings):
    settings.CRONTY_COMMANDS_FILE = ""
    catalog.refresh()

    assert catalog.all() == []
    assert registry.get("backup") is None


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("type = 'integer', min = 100, default = 5", "input should be greater than or equal to 100"),
        ("type = 'number', max = 1, default = 1.5", "input should be less than or equal to 1"),
        ("pattern = '[a-z]+', default = '123'", "string should match pattern"),
        ("max_length = 3, default = 'abcd'", "string should have at most 3 characters"),
    ],
)
def test_default_that_a_job_could_not_give_is_refused(parameter, words):
    text = f"{TRY.format(name='try')}arguments = ['--', '{{x}}']\nparameters.x = {{ {parameter} }}"

    with pytest.raises(OperatorFileError, match=f"^try: parameters.x.default: {words}"):
        task_of("try", parse(text)["try"])
