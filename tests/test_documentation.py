"""Documentation that can be checked: settings, commands, tools and files that the README and the docs name."""

import json
import re
from datetime import UTC, datetime

from django.core.management import get_commands

from cronty_site.terminal.failures import ExitCode
from cronty_site.terminal.group import COMMANDS
from schedules.services.files.jobs import FIELDS, read_jobs
from tests.clusters import PROJECT

REFERENCE = PROJECT / "docs/reference"
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(PROJECT)) for path in (PROJECT / "docs").rglob("*.md")),
]


def test_reference_lists_every_environment_variable():
    documented = (REFERENCE / "settings.md").read_text()
    settings = (PROJECT / "cronty_site/settings.py").read_text()
    read = set(re.findall(r"(?:environment\.\w+|_\w+)\(\s*\"([A-Z_]+)\"", settings))

    assert len(read) > 30
    assert sorted(name for name in read if f"`{name}`" not in documented) == []


def test_documents_name_settings_that_exist():
    reference = (REFERENCE / "settings.md").read_text()
    # Variables of a command, of the terminal, and of agent programs.
    others = {
        "CRONTY_JOB",
        "CRONTY_EXECUTION",
        "CRONTY_ATTEMPT",
        "CRONTY_SCHEDULED_FOR",
        "CRONTY_OWNER",
        "CRONTY_MARK",
        "CRONTY_USER",
        *(
            "CRONTY_TOKEN",
            "CRONTY_TOKEN_FILE",
            "CRONTY_PING_KEY",
            "CRONTY_PING_KEY_FILE",
            "CRONTY_SPOOL",
            "CRONTY_REMOTE",
        ),
    }
    named = {
        name
        for document in DOCUMENTS
        for name in re.findall(r"CRONTY_[A-Z_]+", (PROJECT / document).read_text())
    }

    assert len(named) > 30
    assert [name for name in sorted(named - others) if f"`{name}`" not in reference] == []


def test_nothing_tells_people_to_install_an_unpublished_package():
    """Whoever uploads a package of this name would run on their machines: only files of ours may be installed."""
    places = ["docs", "schedules", "cronty_site", "templates", "examples"]
    kinds = {".md", ".html", ".js", ".py", ".service", ".env", ".toml", ".yaml"}
    files = [path for place in places for path in (PROJECT / place).rglob("*") if path.suffix in kinds]
    files += [PROJECT / name for name in ("README.md", "server.json", "Dockerfile", "compose.yaml")]
    from_an_index = re.compile(
        r"\b(uvx|pipx|uv tool|uv pip|npx) .*cronty|\bpip3? install (?!\S*/)(?!\S*\.whl)\S*cronty|\"identifier\": \"cronty"
    )

    found = [
        f"{path}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if from_an_index.search(line)
    ]

    assert len(files) > 500
    assert found == []
    assert from_an_index.search("uvx cronty up")
    assert from_an_index.search("/opt/bin/pip install 'cronty[apprise]'")


def test_how_to_pages_name_commands_of_the_package():
    """They are for those who installed it; a project that embeds the app has a manage.py."""
    pages = [page for page in (PROJECT / "docs/how-to").glob("*.md") if page.name != "embedding.md"]
    commands = set(get_commands())
    for page in pages:
        named = re.findall(r"(?:`|^)cronty ([a-z_]+)(?: ([a-z_]+))?", page.read_text(), flags=re.MULTILINE)
        assert [name for name, _ in named if name not in COMMANDS] == [], page
        assert [rest for name, rest in named if name == "manage" and rest not in {*commands, ""}] == [], page
        assert "`manage.py" not in page.read_text(), page


def test_reference_lists_every_tool():
    documented = (REFERENCE / "tools.md").read_text()
    contract = json.loads((PROJECT / "tests/mcp/contract.json").read_text())
    names = [tool["name"] for tool in contract["tools"]]

    assert len(names) >= 33
    assert [name for name in names if f"`{name}`" not in documented] == []


def test_linked_files_exist():
    for document in DOCUMENTS:
        folder = (PROJECT / document).parent
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (PROJECT / document).read_text())

        assert [link for link in links if not (folder / link).exists()] == [], document


def test_architecture_names_files_that_exist():
    """Names are relative to schedules/ or the project, and to the folder of the name before: `engine/plan.py`, `gaps.py`."""
    folder, missing, count = "", [], 0
    architecture = (PROJECT / "docs/explanation/architecture.md").read_text()
    for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", architecture):
        folder = name.rpartition("/")[0] or folder
        count += 1
        places = [
            base / place for base in (PROJECT / "schedules", PROJECT) for place in (name, f"{folder}/{name}")
        ]
        if not any(place.exists() for place in places):
            missing.append(name)

    assert count > 30
    assert missing == []


def test_terminal_page_lists_every_command_and_exit_code():
    page = (PROJECT / "docs/reference/terminal.md").read_text()
    codes = [code for name, code in vars(ExitCode).items() if name.isupper()]

    assert [name for name in COMMANDS if not re.search(rf"`{name}\b", page)] == []
    assert [code for code in codes if f"| {code} |" not in page] == []


def test_files_page_lists_every_field_and_its_example_is_valid():
    page = (PROJECT / "docs/how-to/files.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]

    jobs, problems = read_jobs([("jobs.yaml", example)], "UTC", datetime(2026, 11, 16, tzinfo=UTC))

    assert problems == []
    assert [job.key for job in jobs] == ["Stand-up", "Nightly hook"]
    assert [name for name in FIELDS if f"`{name}`" not in page] == []
