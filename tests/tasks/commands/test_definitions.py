"""The operator's file: what is read from it, and what is refused, with the place of the mistake."""

import re
from datetime import timedelta

import pytest

from schedules.tasks.commands.definitions import parse
from schedules.tasks.operator_files.tables import LONGEST_FILE, OperatorFileError, line_of

BACKUP = """
[backup]
description = "Back up a folder."
program = "/usr/bin/restic"
arguments = [
    "backup",
    "--tag={tag}",
    { if = "limit", arguments = ["--limit-upload", "{limit}"] },
    { if = "quiet", arguments = ["--quiet"] },
    "--",
    "{folder}",
]
directory = "/srv"
timeout = "2h"
attempts = 3
allow = ["staff", "agents"]

[backup.environment]
RESTIC_PASSWORD = "${secret:RESTIC_PASSWORD}"
RESTIC_TAG = "tag of {tag}"
RESTIC_LIMIT = "{limit}"

[backup.parameters]
folder = { description = "What to back up." }
tag = { default = "cronty", pattern = "[a-z]+" }
limit = { type = "integer", min = 1, max = 1000, optional = true }
quiet = { type = "boolean", default = false }
"""


def minimal(**more: str) -> str:
    lines = {"description": '"Try it."', "program": '"/bin/true"'} | more
    return "[try]\n" + "\n".join(f"{name} = {value}" for name, value in lines.items())


def test_command_is_read_with_its_limits():
    command = parse(BACKUP)["backup"]

    assert command.timeout == timedelta(hours=2)
    assert command.attempts == 3
    assert command.directory == "/srv"
    assert command.allow == ["staff", "agents"]
    assert command.secrets == {"RESTIC_PASSWORD"}
    assert [name for name, each in command.parameters.items() if each.is_required] == ["folder"]


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        ({"tag": "x", "folder": "/home"}, ["backup", "--tag=x", "--", "/home"]),
        (
            {"tag": "x", "folder": "-rf", "limit": "7", "quiet": "true"},
            ["backup", "--tag=x", "--limit-upload", "7", "--quiet", "--", "-rf"],
        ),
        ({"tag": "-x", "folder": "--", "quiet": "false"}, ["backup", "--tag=-x", "--", "--"]),
    ],
)
def test_arguments_are_a_list_without_those_of_missing_parameters(values, arguments):
    assert parse(BACKUP)["backup"].argument_list(values) == ["/usr/bin/restic", *arguments]


def test_environment_leaves_out_variables_of_missing_parameters():
    variables = parse(BACKUP)["backup"].variables({"tag": "x"}, {"RESTIC_PASSWORD": "hush"})

    assert variables == {"RESTIC_PASSWORD": "hush", "RESTIC_TAG": "tag of x"}


@pytest.mark.parametrize("value", ["-1", "--", "--limit=0"])
def test_value_that_would_become_an_option_is_refused(value):
    command = parse(BACKUP)["backup"]

    with pytest.raises(ValueError, match="limit: must not begin with -"):
        command.argument_list({"tag": "x", "folder": "/home", "limit": value})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[try", "This is not TOML", id="half a file"),
        pytest.param('a = "\0"', "This is not TOML", id="NUL"),
        pytest.param("try = 1", "try: input should be", id="not a table"),
        pytest.param('["-x"]\n', "'-x' is not a name", id="name of a command"),
        pytest.param('[try]\nprogram = "/bin/true"', "try.description: field required", id="no description"),
        pytest.param(minimal(shel="true"), "try.shel: unknown key", id="unknown key"),
        pytest.param(minimal(program='"bin/x"'), "try.program: give the whole path", id="relative program"),
        pytest.param(minimal(program='"/bin/{x}"'), "a program cannot be chosen", id="program by parameter"),
        pytest.param(
            minimal(directory='"srv"'), "try.directory: give the whole path", id="relative directory"
        ),
        pytest.param(minimal(timeout='"soon"'), 'try.timeout: write a duration like "90s"', id="timeout"),
        pytest.param(minimal(timeout='"2d"'), "between one second and one day", id="long timeout"),
        pytest.param(minimal(allow="[]"), "try.allow", id="nobody"),
        pytest.param(minimal(allow='["root"]'), "try.allow.0", id="unknown people"),
        pytest.param(minimal(output_characters="10"), "try.output_characters", id="output limit"),
        pytest.param(minimal(arguments='["{x}"]'), "there is no parameter 'x'", id="unknown parameter"),
        pytest.param(
            minimal(arguments='["${secret:1}"]'), r"write a secret as \${secret:NAME}", id="bad secret"
        ),
        pytest.param(minimal(arguments="[3]"), "try.arguments.0", id="not a text"),
        pytest.param(
            minimal(arguments='["-{x}"]') + "\n[try.parameters.x]", "could become an option", id="option"
        ),
        pytest.param(
            minimal(arguments='["{x}"]') + "\n[try.parameters.x]\noptional = true",
            "x is optional: write",
            id="optional without if",
        ),
        pytest.param(minimal() + "\n[try.parameters.x]", "x: not used", id="unused parameter"),
        pytest.param(minimal() + "\n[try.parameters.run]", "cannot be called run", id="reserved name"),
        pytest.param(minimal() + "\n[try.parameters.X]", "try.parameters.X", id="name of a parameter"),
        pytest.param(minimal() + '\n[try.environment]\n"a b" = ""', "try.environment", id="variable"),
        pytest.param(
            minimal(arguments='["{x}"]') + '\n[try.parameters.x]\nchoices = ["-x"]',
            "must not begin with -",
            id="choice that is an option",
        ),
        pytest.param(
            minimal(arguments='["{x}"]') + '\n[try.parameters.x]\nchoices = ["a", "${secret:KEY}"]',
            "a secret cannot be one of the choices",
            id="choice that is a secret",
        ),
        pytest.param(minimal() + "\n[try.parameters.x]\nmin = 1", "min and max belong to numbers", id="min"),
        pytest.param(
            minimal() + '\n[try.parameters.x]\ntype = "integer"\ndefault = "1"',
            "not of type integer",
            id="default",
        ),
        pytest.param(
            minimal() + '\n[try.parameters.x]\ntype = "integer"\nmin = 2\nmax = 1',
            "min is larger than max",
            id="no number fits",
        ),
        pytest.param("#" * (LONGEST_FILE + 1), "larger than", id="huge file"),
    ],
)
def test_mistake_is_refused_with_its_place(text, words):
    with pytest.raises(OperatorFileError, match=words):
        parse(text)


def test_end_of_options_that_is_not_always_there_protects_only_what_stands_beside_it():
    text = (
        minimal(arguments='["--a={y}", { if = "x", arguments = ["--", "{x}"] }, "-o{y}"]')
        + "\n[try.parameters]\nx = { optional = true }\ny = {}"
    )

    with pytest.raises(OperatorFileError, match="could become an option"):
        parse(text)


def test_every_mistake_of_a_file_is_named():
    with pytest.raises(OperatorFileError) as caught:
        parse(minimal(shel="true", timeout='"x"') + '\n[other]\nprogram = "/x"')

    assert all(place in str(caught.value) for place in ("try.shel", "try.timeout", "other.description"))


def test_problem_is_found_on_its_line():
    for text, places, line in [
        ("[a]\nprogram = 'x'\n\n[a.parameters.b]\ntype = 'x'", ["a", "parameters", "b", "type"], 5),
        ("[a]\nprogram = 'x'\n\n[a.parameters.b]", ["a", "parameters", "b", "nothing"], 4),
        ("[a]\narguments = [\n 'x',\n 5,\n]", ["a", "arguments", "1"], 2),
        ("[a]\nx.y = 1\n['b.c'] # here\n\"x\" = 2", ["b.c", "x"], 4),
        ("[a]\nparameters.b = { type = 'x' }", ["a", "parameters", "b", "type"], 2),
        ("[a]\n[b]", ["b", "program"], 2),
        ("", ["a"], None),
    ]:
        assert line_of(text, places) == line


def test_every_problem_names_its_line():
    text = "[a]\ndescription = 'x'\nprogram = 'x/y'\n\n[b]\ndescription = 'x'\nprogram = 'x'\nattempts = 99\n"

    with pytest.raises(OperatorFileError) as refused:
        parse(text)

    assert str(refused.value).startswith("line 3: a.program: give the whole path")
    assert "; line 8: b.attempts: " in str(refused.value)
    assert refused.value.line == 3


def test_input_user_and_limits_are_checked():
    for keys, words in [
        ("user = 'ro ot'", "try.user: string should match pattern"),
        ("max_memory = '2'", 'try.max_memory: write a size like "512MB"'),
        ("max_memory = 2000", 'try.max_memory: write a size like "512MB"'),
        ("max_memory = '1MB'", "try.max_memory: choose between 16MB"),
        ("max_cpu = 'long'", "try.max_cpu: write a duration"),
        ("input = '{x}'", "there is no parameter 'x'"),
        ("arguments = ['--', '{x}']\nparameters.x = { multiline = true }", "can only be used in the input"),
        ("input = '{x}'\nparameters.x = { type = 'integer', multiline = true }", "multiline belongs to text"),
        ("input = '{x}'\nparameters.x = { default = \"a\\nb\" }", "remove the control character"),
    ]:
        with pytest.raises(OperatorFileError, match=f"(?i){re.escape(words)}"):
            parse(f"[try]\ndescription = 'x'\nprogram = 'x'\n{keys}")


def test_sizes_are_read():
    for text, size in [
        ("512MB", 512_000_000),
        ("1.5 GB", 1_500_000_000),
        ("16Mi", 2**24),
        ("2GiB", 2**31),
        ("20000kB", 2 * 10**7),
    ]:
        command = parse(f"[try]\ndescription = 'x'\nprogram = 'x'\nmax_memory = '{text}'")["try"]

        assert command.max_memory == size
