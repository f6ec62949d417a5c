"""The files that install Cronty: the package's metadata, the Dockerfile, compose.yaml and the systemd units.

`make dist` builds the package, starts it and follows the steps of the Dockerfile.
"""

import re
import shutil
import subprocess

import pytest
import yaml
from django.core.management import load_command_class

from cronty_site import environment
from cronty_site.terminal.group import COMMANDS
from tests.clusters import PROJECT
from verification.dist import instructions

DOCKERFILE = instructions((PROJECT / "Dockerfile").read_text())
COMPOSE = yaml.safe_load((PROJECT / "compose.yaml").read_text())
SETTINGS = (PROJECT / "cronty_site/settings.py").read_text()


def of(name: str) -> list[str]:
    return [rest for instruction, rest in DOCKERFILE if instruction == name]


def copied_from_checkout() -> list[str]:
    return [word for rest in of("COPY") if "--from=" not in rest for word in rest.split()[:-1]]


def known_options(command: str) -> list[str]:
    parser = load_command_class("schedules", command).create_parser("cronty", command)
    return [option for action in parser._actions for option in action.option_strings]


def test_dockerfile_copies_files_that_exist_and_are_sent_to_the_builder():
    sent = re.findall(r"^!(\S+)$", (PROJECT / ".dockerignore").read_text(), flags=re.MULTILINE)

    assert sorted(copied_from_checkout()) == sorted(sent)
    assert [name for name in sent if not (PROJECT / name).exists()] == []


def test_image_is_small_and_unprivileged():
    names = [instruction for instruction, _ in DOCKERFILE]

    assert len(of("FROM")) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim-bookworm( AS build)?", rest) for rest in of("FROM"))
    assert of("USER") == ["cronty"]
    assert names.index("USER") > names.index("COPY", names.index("FROM", 1))
    assert "/healthz" in of("HEALTHCHECK")[0]
    assert of("COPY")[-1] == "--from=build /opt/cronty /opt/cronty/"


def test_image_sets_known_settings_and_starts_a_known_command():
    variables = re.findall(r"(CRONTY_\w+)=", " ".join(of("ENV")))

    assert sorted(variables) == ["CRONTY_DATA", "CRONTY_HOST", "CRONTY_PORT"]
    assert all(f'"{name}"' in SETTINGS for name in variables)
    assert (of("ENTRYPOINT"), of("CMD")) == (['["cronty"]'], ['["up"]'])


def test_compose_runs_web_two_clusters_and_a_database():
    services = COMPOSE["services"]

    assert sorted(services) == ["cluster", "database", "web"]
    assert services["cluster"]["deploy"] == {"replicas": 2}
    for name in ("web", "cluster"):
        command, *options = services[name]["command"]
        assert set(options) <= set(known_options(command))
        assert all(f'"{variable}"' in SETTINGS for variable in services[name]["environment"])
        assert services[name]["depends_on"]["database"]["condition"] == "service_healthy"
    for service in services.values():
        assert {"mem_limit", "pids_limit", "security_opt"} <= set(service)


def test_compose_asks_for_secrets_instead_of_having_them():
    text = (PROJECT / "compose.yaml").read_text()

    for name in ("POSTGRES_PASSWORD", "CRONTY_SECRET_KEY"):
        assert set(re.findall(rf"\${{{name}[^}}]*}}", text)) == {f"${{{name}:?}}"}
    used = set(re.findall(r"\$\{(\w+)", text))
    assert used == {"POSTGRES_PASSWORD", "CRONTY_SECRET_KEY", "CRONTY_URL"}


@pytest.mark.parametrize("name", ["cronty.service", "cronty-cluster@.service"])
def test_units_start_known_commands(name):
    unit = (PROJECT / "docs/how-to/deploy" / name).read_text()
    start = re.search(r"^ExecStart=/opt/cronty/bin/cronty (\S+)(.*)$", unit, flags=re.MULTILINE)

    assert start is not None
    assert start[1] in COMMANDS
    assert set(start[2].split()) <= set(known_options(start[1]))
    # The service cannot write anywhere else, so it begins in its data folder.
    folders = re.findall(r"^(?:WorkingDirectory|Environment=CRONTY_DATA)=(\S+)$", unit, flags=re.MULTILINE)
    [state] = re.findall(r"^StateDirectory=(\S+)$", unit, flags=re.MULTILINE)
    assert folders == [f"/var/lib/{state}"] * 2
    for variable in re.findall(r"^Environment=(\w+)=", unit, flags=re.MULTILINE):
        assert f'"{variable}"' in SETTINGS
    assert re.search(r"^User=(?!root)", unit, flags=re.MULTILINE)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_unit_of_a_cluster_is_valid(tmp_path):
    text = (PROJECT / "docs/how-to/deploy/cronty-cluster@.service").read_text()
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
    text = re.sub(r"^(WorkingDirectory|User|Group|Documentation)=.*\n", "", text, flags=re.MULTILINE)
    (tmp_path / "cronty-cluster@1.service").write_text(text)

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "cronty-cluster@1.service")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert [line for line in verified.stderr.splitlines() if "cronty-cluster" in line] == []


def test_data_is_beside_a_checkout_and_in_the_users_folder_for_a_package(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    (tmp_path / "manage.py").touch()

    assert environment.data_folder(tmp_path) == tmp_path / "share/cronty"

    (tmp_path / "pyproject.toml").touch()

    assert environment.data_folder(tmp_path) == tmp_path / "data"
