"""Real agent programs find Cronty's tools in their first turn, call them, and read results and errors."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedules.mcp.server import INSTRUCTIONS
from schedules.web.snippets import snippets
from tests.mcp.processes import MANAGE, Site, prepared, serving
from tests.programs.models import ScriptedModel, Step, scripted_model
from tests.programs.programs import BIN, PROGRAMS, Home, Program

pytestmark = pytest.mark.verify

STEPS = (
    Step("schedule_job", {"name": "Tea", "task": "notify", "trigger_type": "interval"} | {
        "trigger_config": {"minutes": 30}, "kwargs": {"message": "Drink tea", "topic": "kitchen-of-olga"}}),
    Step("list_jobs", {"query": "tea"}),
    Step("job_status", {"job": "Tea"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with prepared(tmp_path_factory.mktemp("site")) as site:
        yield site.with_fresh_python


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model(*STEPS) as model:
        yield model


@pytest.fixture
def home(tmp_path: Path, model: ScriptedModel) -> Iterator[Home]:
    home = Home(tmp_path, model.address)
    yield home
    home.end_processes()


@pytest.fixture(params=PROGRAMS)
def key(request: pytest.FixtureRequest) -> str:
    program = PROGRAMS[request.param]
    if not program.is_installed:
        pytest.skip(f"{program.binary} is not installed in {BIN.parent.parent.name}: run `make programs`")
    return str(request.param)


def check(program: Program, home: Home, model: ScriptedModel) -> None:
    program.work(home)

    if program.shows_instructions:
        assert any(INSTRUCTIONS[:40] in request.text for request in model.requests)
    created, listed, refused = model.results[-3:]
    assert "every 30 minutes" in created.lower()
    assert "Tea" in listed
    # Either the program or Cronty names what is missing.
    assert "job_id" in refused
    if not program.reports_errors_itself:
        assert "unknown field job" in refused


def test_program_follows_the_page_and_calls_tools_over_http(key, site, model, home, settings):
    program = PROGRAMS[key]
    program.use_model(home)
    with serving(site) as (_, url):
        settings.CRONTY_URL = url.removesuffix("/mcp")
        text = next(snippet.text for snippet in snippets(site.token, "olga") if snippet.key == key)
        program.connect(home, text)

        check(program, home, model)


def test_program_starts_the_server_itself_and_calls_tools(key, site, model, home):
    program = PROGRAMS[key]
    program.use_model(home)
    variables = [f"{name}={value}" for name, value in site.environment.items()]
    program.connect_locally(home, ["env", *variables, *site.python, MANAGE, "mcp_serve"])

    check(program, home, model)


def test_codex_waits_for_a_server_that_is_required(site, model, home):
    program = PROGRAMS["codex"]
    if not program.is_installed:
        pytest.skip("codex is not installed: run `make programs`")
    program.use_model(home)
    variables = [f"{name}={value}" for name, value in site.environment.items()]
    slow = f"sleep 3; exec env {shlex.join(variables)} {shlex.join([*site.python, MANAGE])} mcp_serve"
    program.connect_locally(home, ["sh", "-c", slow])
    home.append(".codex/config.toml", "required = true\nstartup_timeout_sec = 60\n")

    program.work(home)

    assert any(name.endswith("list_jobs") for name in model.first.tools)
