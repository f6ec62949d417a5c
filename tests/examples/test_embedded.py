"""The example project that embeds the app: its own tests, and its processes."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.management import call_command
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.documented import blocks
from tests.forks import python
from tests.mcp.agents import answer_of
from tests.mcp.processes import free_port
from tests.projects import ROOT, Project, empty_database
from tests.waiting import PATIENCE, wait_for

EXAMPLE = ROOT / "examples" / "embedded"

PREPARE = """
from django.core.management import call_command
from orders.models import Customer

call_command("check", fail_level="WARNING")
call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
call_command("migrate", verbosity=0)
Customer.objects.create_superuser("olga@example.org", "correct horse")
call_command("issue_token", user="olga@example.org", name="laptop")
"""
PAGE = "docs/how-to/embedding.md"
FILL_IN = """
apps, middleware = DJANGO
INSTALLED_APPS = [*INSTALLED_APPS[:1], *apps, "orders", *INSTALLED_APPS[2:]]
MIDDLEWARE = [middleware[0], *MIDDLEWARE[1:4], *middleware[2:]]
LOGIN_URL = "admin:login"
"""
USE_THE_PROJECT = """
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

call_command("check", fail_level="WARNING")
call_command("migrate", verbosity=0)
print(reverse("schedules:jobs"), Client().get("/static/schedules/app.css").status_code, sep="\\n")
customer, item = User.objects.create_user("olga"), "lamp"
Order = SimpleNamespace(objects=SimpleNamespace(create=lambda **_: SimpleNamespace(pk=7)))
exec(Path("services.py").read_text())
print(answer.value.job.name)
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    with empty_database(tmp_path) as address:
        yield address


@pytest.fixture
def shop(database: str) -> Project:
    variables = {"PYTHONPATH": str(ROOT), "DATABASE_URL": database, "SHOP_REMINDER_SECONDS": "1"}
    return Project(EXAMPLE, variables)


@pytest.mark.verify
def test_example_passes_its_own_tests(shop: Project):
    done = shop.run("test")

    assert done.returncode == 0, done.stderr
    assert re.search(r"Ran [1-9]\d* tests", done.stderr)


@pytest.mark.verify
def test_job_created_by_the_project_fires_and_is_visible_to_people_and_agents(shop: Project, tmp_path: Path):
    token = shop.shell(PREPARE).splitlines()[-1]
    port = free_port()
    address = f"http://127.0.0.1:{port}"

    log = tmp_path / "log"
    with (
        shop.running("up", "--port", str(port), output=log),
        httpx2.Client(base_url=address, timeout=PATIENCE) as browser,
    ):
        wait_for(lambda: answers(browser, "/cronty/healthz"))
        # At once, also in the journal of a service: it may have the first password.
        wait_for(lambda: "Ctrl-C stops everything" in log.read_text())
        assert f"create a token at {address}/cronty/connect/ for {address}/mcp" in log.read_text()
        log_in(browser)
        placed = browser.post("/", data={"item": "lamp"}, headers=csrf(browser))
        assert placed.status_code == 201, placed.text
        wait_for(lambda: browser.get("/").json()["orders"][0]["reminded_at"])
        wait_for(lambda: "Remind of order" in browser.get("/cronty/runs/").text)
        in_the_admin = browser.get("/admin/schedules/execution/")
        over_http = asyncio.run(jobs_over_http(f"{address}/mcp", token))

    assert "Remind of order" in in_the_admin.text
    # The project's own title.
    assert "Django administration" in in_the_admin.text
    over_stdio = asyncio.run(jobs_over_stdio(shop))
    assert over_http == over_stdio == ["Remind of order 1"]


@pytest.mark.verify
def test_project_made_from_the_page_works(tmp_path: Path):
    """A new Django project with the blocks of docs/how-to/embedding.md, whose `...` stand for what Django put there."""
    files, tasks, services = (block.text for block in blocks(PAGE, "python"))
    _, settings, urls, asgi = re.split(r"^# \w+\.py\n", files, flags=re.MULTILINE)
    (on_sqlite,) = re.findall(r"On SQLite, set `(.+?)`", (ROOT / PAGE).read_text())
    call_command("startproject", "shop", str(tmp_path))
    append(tmp_path / "shop/settings.py", "DJANGO = INSTALLED_APPS, MIDDLEWARE", settings, on_sqlite, FILL_IN)
    append(
        tmp_path / "shop/urls.py", "from django.urls import include", f"urlpatterns.append({urls.strip()})"
    )
    (tmp_path / "shop/asgi.py").write_text(asgi)
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/__init__.py").touch()
    (tmp_path / "orders/tasks.py").write_text(tasks)
    (tmp_path / "services.py").write_text(services)

    project = Project(tmp_path, {"PYTHONPATH": str(ROOT)})
    said = project.shell(USE_THE_PROJECT)
    # As another server does it, which has not set up Django before.
    served = subprocess.run(
        [*python(), "-c", "from shop.asgi import application; print(type(application).__name__)"],
        cwd=tmp_path,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.splitlines()[-3:] == ["/cronty/", "200", "Remind of order 7"]
    assert served.stdout == "Guards\n", served.stderr


def append(file: Path, *parts: str) -> None:
    file.write_text("\n".join([file.read_text(), *parts, ""]))


def answers(browser: httpx2.Client, path: str) -> bool:
    with suppress(httpx2.TransportError):
        return browser.get(path).status_code == 200
    return False


def log_in(browser: httpx2.Client) -> None:
    browser.get("/login/")
    form = {"username": "olga@example.org", "password": "correct horse"}
    answer = browser.post("/login/", data=form, headers=csrf(browser))
    assert answer.status_code == 302, answer.text


def csrf(browser: httpx2.Client) -> dict[str, str]:
    return {"X-CSRFToken": browser.cookies["csrftoken"]}


async def jobs_over_http(address: str, token: str) -> list[str]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http:
        return await names_of_jobs(streamable_http_client(address, http_client=http))


async def jobs_over_stdio(shop: Project) -> list[str]:
    command, *arguments = [*python(), "manage.py", "mcp_serve", "--user", "olga@example.org"]
    return await names_of_jobs(
        stdio_client(
            StdioServerParameters(command=command, args=arguments, env=shop.environment, cwd=str(shop.folder))
        )
    )


async def names_of_jobs(transport: Any) -> list[str]:
    async with Client(transport) as client:
        answer = answer_of(await client.call_tool("list_jobs", {}))
    return [job["name"] for job in answer["jobs"]]
