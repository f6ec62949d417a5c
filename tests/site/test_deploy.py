"""The files in docs/how-to/deploy: both proxies in front of a real server, the systemd unit and the fail2ban filter."""

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clusters import PROJECT
from tests.forks import python
from tests.mcp.over_http import modern_call
from tests.mcp.processes import PREPARE, free_port, wait_for_port
from tests.waiting import PATIENCE

FILES = PROJECT / "docs/how-to/deploy"
NAME = "cronty.example"
# Clients connect from here, so that their address differs from the proxy's.
CLIENT = "127.0.0.7"
SERVE = f"""
{PREPARE}
import sys
from django.conf import settings
# The pages need no collected files then.
settings.STORAGES = {{"staticfiles": {{"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}}}
from cronty_site.asgi import application
from cronty_site.serving.server import serve
serve(application, host="127.0.0.1", port=int(sys.argv[1]))
"""
CERTIFICATE = f"""
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={NAME}
-addext subjectAltName=DNS:{NAME},IP:127.0.0.1 -keyout key.pem -out cert.pem
"""
# Its workers would otherwise be a user who cannot enter the folders of the tests.
NGINX_USER = "user root;" if os.geteuid() == 0 else ""
NGINX = """
{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/cronty.conf;
}}
"""


@dataclass(frozen=True)
class Behind:
    """A server whose address is https and that trusts a proxy on this host, with a token and a certificate."""

    folder: Path
    port: int
    token: str

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


@dataclass(frozen=True)
class Proxy:
    """A proxy in front of the server."""

    cronty: Behind
    port: int
    name: str

    def browser(self, address: str = CLIENT, **headers: str) -> httpx2.Client:
        trust = ssl.create_default_context(cafile=str(self.cronty.folder / "cert.pem"))
        transport = httpx2.HTTPTransport(verify=trust, local_address=address)
        return httpx2.Client(
            transport=transport,
            base_url=f"https://127.0.0.1:{self.port}",
            headers={"Host": NAME, **headers},
            timeout=PATIENCE,
        )


@pytest.fixture(scope="module")
def cronty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder, port = tmp_path_factory.mktemp("behind"), free_port()
    (folder / "static").mkdir()
    subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
        "CRONTY_DATA": str(folder),
        "CRONTY_URL": f"https://{NAME}",
        "CRONTY_TRUSTED_PROXIES": "127.0.0.1",
    }
    command = [*python(), "-c", SERVE, str(port)]
    with (folder / "log").open("wb") as log, started(command, port, env=variables, stderr=log) as process:
        assert process.stdout
        yield Behind(folder, port, process.stdout.readline().decode().strip())


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, cronty: Behind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    """Run a proxy with the file from docs/how-to/deploy; only its addresses and certificate are replaced."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    folder, port = tmp_path_factory.mktemp(request.param), free_port()
    command = {"nginx": nginx, "caddy": caddy}[request.param](folder, port, cronty)
    with started(command, port, env={**os.environ, "HOME": str(folder)}, stderr=subprocess.PIPE):
        yield Proxy(cronty, port, request.param)


def nginx(folder: Path, port: int, cronty: Behind) -> list[str]:
    text = replaced(
        (FILES / "nginx.conf").read_text(),
        ("127.0.0.1:8000", f"127.0.0.1:{cronty.port}"),
        ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", str(cronty.folder / "cert.pem")),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", str(cronty.folder / "key.pem")),
    )
    (folder / "cronty.conf").write_text(text)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=NGINX_USER))
    # Without its own folder, nginx would open the system's log first.
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def caddy(folder: Path, port: int, cronty: Behind) -> list[str]:
    certificate = f"tls {cronty.folder}/cert.pem {cronty.folder}/key.pem"
    text = replaced(
        (FILES / "Caddyfile").read_text(),
        ("127.0.0.1:8000", f"127.0.0.1:{cronty.port}"),
        (f"\n{NAME} {{\n", f"\nhttps://{NAME}:{port}, https://127.0.0.1:{port} {{\n\t{certificate}\n"),
        ("{\n\tservers", f"{{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_sni {NAME}\n\tservers"),
    )
    (folder / "Caddyfile").write_text(text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@contextmanager
def started(command: list[str], port: int, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)
    try:
        wait_for_port(process, port)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def log_in(browser: httpx2.Client, name: str, password: str) -> httpx2.Response:
    page = browser.get("/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token, page.text
    # The client leaves out secure cookies of a host that it knows only from a header.
    cookies = "; ".join(value.split(";")[0] for value in page.headers.get_list("set-cookie"))
    form = {"username": name, "password": password, "csrfmiddlewaretoken": token[1]}
    headers = {"Cookie": cookies, "Origin": f"https://{NAME}", "Referer": f"https://{NAME}/login/"}
    return browser.post("/login/", data=form, headers=headers)


@pytest.mark.verify
def test_login_through_the_proxy_counts_the_clients_address(proxy: Proxy):
    """Forged headers change nothing: five guesses lock this address, and no other."""
    client = {"nginx": "127.0.0.7", "caddy": "127.0.0.8"}[proxy.name]
    name = f"guessed-from-{client}"
    statuses = []
    for number in range(5):
        forged = {
            "X-Forwarded-For": f"203.0.113.{number}",
            "X-Forwarded-Proto": "http",
            "X-Real-IP": "203.0.113.9",
        }
        with proxy.browser(client, **forged) as browser:
            statuses.append(log_in(browser, name, "wrong").status_code)

    assert statuses == [200, 200, 200, 200, 429]
    assert f'Login failed from {client}, name "{name}", failure 5' in proxy.cronty.log
    assert "from 203.0.113" not in proxy.cronty.log
    with proxy.browser("127.0.0.9") as browser:
        inside = log_in(browser, "olga", "correct horse")
    assert (inside.status_code, inside.headers["location"]) == (302, "/")
    assert "Secure" in inside.headers["set-cookie"]


@pytest.mark.verify
@pytest.mark.parametrize(
    ("path", "size"), [("/login/", 20_000), ("/jobs/new/", 1_000_001), ("/mcp", 262_145)]
)
def test_large_body_is_refused_through_the_proxy(proxy: Proxy, path: str, size: int):
    with proxy.browser() as browser:
        assert browser.post(path, content=b"x" * size).status_code == 413
        assert browser.get("/healthz").text == "ok\n"


@pytest.mark.verify
def test_metrics_are_closed_at_the_proxy(proxy: Proxy):
    with proxy.browser() as browser:
        assert browser.get("/metrics").status_code == 403
        assert browser.get("/healthz").status_code == 200


@pytest.mark.verify
def test_agent_is_answered_and_subscribed_through_the_proxy(proxy: Proxy):
    call = modern_call("list_jobs")
    call["headers"]["Authorization"] = f"Bearer {proxy.cronty.token}"
    with proxy.browser() as browser:
        answer = browser.post("/mcp", json=call["json"], headers=call["headers"])
        assert answer.status_code == 200, answer.text
        call["headers"]["Mcp-Method"] = call["json"]["method"] = "subscriptions/listen"
        del call["headers"]["Mcp-Name"], call["json"]["params"]["name"], call["json"]["params"]["arguments"]
        call["json"]["params"]["notifications"] = {"resourcesListChanged": True}
        with browser.stream("POST", "/mcp", json=call["json"], headers=call["headers"]) as stream:
            # The stream is open, and its first lines have arrived.
            assert stream.status_code == 200
            assert next(line for line in stream.iter_lines() if line)


@pytest.mark.verify
def test_plain_http_past_the_proxy_is_refused(cronty: Behind):
    headers = {"Host": NAME, "X-Forwarded-Proto": "https"}
    transport = httpx2.HTTPTransport(local_address=CLIENT)
    with httpx2.Client(
        transport=transport,
        base_url=f"http://127.0.0.1:{cronty.port}",
        headers=headers,
        timeout=PATIENCE,
    ) as browser:
        assert browser.get("/login/").status_code == 301
        assert browser.post("/mcp", json={}).status_code == 403
        assert browser.get("/healthz").text == "ok\n"


@pytest.mark.parametrize("name", ["cronty.service", "cronty-cluster@.service"])
def test_unit_has_only_its_data_folder_and_the_file_of_settings(name: str):
    """Commands that a person types read the same file."""
    unit = (FILES / name).read_text()

    assert re.findall(r"^Environment=(\w+)", unit, flags=re.MULTILINE) == ["CRONTY_DATA"]
    assert re.findall(r"^EnvironmentFile=(.+)$", unit, flags=re.MULTILINE) == ["/etc/cronty.env"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path: Path):
    unit = tmp_path / "cronty.service"
    unit.write_text(
        replaced(
            (FILES / "cronty.service").read_text(),
            ("ExecStart=/opt/cronty/bin/cronty", f"ExecStart={sys.executable}"),
        )
    )

    verified = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", unit],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    assert rated.returncode == 0, rated.stdout.splitlines()[-1:]


@pytest.mark.skipif(shutil.which("fail2ban-regex") is None, reason="fail2ban is not installed")
def test_fail2ban_finds_the_address_in_a_real_line(tmp_path: Path):
    line = '2026-11-16 03:45:00,820 WARNING cronty_site.logins: Login failed from 192.0.2.7, name "olga", failure 3'
    log = tmp_path / "log"
    log.write_text(f"{line}\n{line.replace('Login', 'Nothing')}\n")

    done = subprocess.run(
        ["fail2ban-regex", "--print-all-matched", log, FILES / "fail2ban-filter.conf"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 matched" in done.stdout, done.stdout
