"""The distribution, built and checked: `make dist`.

It builds the wheel with tools of its own, checks what is in it, installs it into a fresh virtual environment and starts
it from an empty folder. Then it follows the steps of the Dockerfile and, as root, those of
docs/how-to/deploy.md. It needs the standard library only.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import venv
from argparse import ArgumentParser
from pathlib import Path
from zipfile import ZipFile

from verification.throwaway import can_throw_away, run_in_throwaway_root

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache" / "dist"
OUTPUT = PROJECT / "dist"
TOOLS = ("build", "twine")
PACKAGES = ("schedules", "cronty_site")
# Where a path of the checkout is in the wheel, if not in the same place.
MOVED = {"templates/": "cronty_site/templates/"}
HELLO = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",'
    ' "capabilities": {}, "clientInfo": {"name": "dist", "version": "1"}}}\n'
)
NOT_OURS = ("CRONTY_", "NTFY_", "XDG_", "DATABASE_URL", "DJANGO_", "EMAIL_URL", "PYTHONPATH")


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--no-docker", action="store_true", help="Leave out the steps of the Dockerfile.")
    options = parser.parse_args()
    wheel = build()
    check_contents(wheel)
    cronty = install(CACHE / "fresh", wheel)
    check_start(cronty, CACHE / "home")
    if not options.no_docker:
        follow_dockerfile(CACHE / "image")
    follow_deployment(wheel, CACHE / "host")
    say(f"ok: {wheel.relative_to(PROJECT)}, {wheel.stat().st_size:,} bytes")


def build() -> Path:
    """Build the source distribution and, from it, the wheel; have twine check both."""
    say("Building …")
    tools = CACHE / "tools"
    if not (tools / "bin/twine").exists():
        create(tools)
        run(tools / "bin/python", "-m", "pip", "install", "-q", *TOOLS, quiet=True)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    run(tools / "bin/python", "-m", "build", "--outdir", OUTPUT, PROJECT, quiet=True)
    files = sorted(OUTPUT.iterdir())
    run(tools / "bin/twine", "check", "--strict", *files, quiet=True)
    return next(file for file in files if file.suffix == ".whl")


def check_contents(wheel: Path) -> None:
    """Every file of the packages is in the wheel, and nothing else except its own records."""
    say("Checking the contents …")
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        records = [name for name in archive.namelist() if ".dist-info/" in name]
    expected = {in_wheel(name) for name in source_files()}
    if missing := sorted(expected - packed):
        sys.exit(f"Missing from the wheel: {', '.join(missing)}")
    if extra := sorted(packed - expected):
        sys.exit(f"In the wheel, but not in the sources: {', '.join(extra)}")
    if not any(name.endswith("licenses/LICENSE") for name in records):
        sys.exit("The wheel has no licence.")


def source_files() -> list[str]:
    listed = run(
        "git",
        "-C",
        PROJECT,
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        *PACKAGES,
        *MOVED,
        quiet=True,
    )
    return [name for name in listed.splitlines() if (PROJECT / name).is_file()]


def in_wheel(name: str) -> str:
    for folder, place in MOVED.items():
        if name.startswith(folder):
            return place + name.removeprefix(folder)
    return name


def install(folder: Path, wheel: Path) -> Path:
    """Install the locked packages and the wheel into a fresh virtual environment; return its `cronty`."""
    say("Installing …")
    create(folder)
    pip = [folder / "bin/python", "-m", "pip", "install", "-q", "--no-deps"]
    run(*pip, "--require-hashes", "-r", PROJECT / "requirements.txt", quiet=True)
    run(*pip, wheel, quiet=True)
    return folder / "bin" / "cronty"


def check_start(cronty: Path, home: Path) -> None:
    """Start Cronty from an empty folder: it fires one job, keeps its data in the user's data folder, and serves MCP."""
    say("Starting from an empty folder …")
    shutil.rmtree(home, ignore_errors=True)
    folder = home / "empty"
    folder.mkdir(parents=True)
    said = run(cronty, "up", "--check", "--port", free_port(), home=home, folder=folder)
    if "\nok:" not in said:
        sys.exit(f"`cronty up --check` said: {said}")
    if list(folder.iterdir()):
        sys.exit(f"It left files behind: {sorted(path.name for path in folder.iterdir())}")
    data = list(home.rglob("cronty.sqlite3"))
    if len(data) != 1 or data[0].parent.name != "cronty":
        sys.exit(f"The database is not in the user's data folder, but here: {data}")
    # A template that only the site has comes from the wheel, too.
    find = "from django.template.loader import get_template; print(get_template('login.html').origin)"
    if "site-packages/cronty_site/templates" not in run(
        cronty, "manage", "shell", "-c", find, home=home, folder=folder
    ):
        sys.exit("The templates of the site are not found.")
    password = {"DJANGO_SUPERUSER_PASSWORD": "only for this check"}
    person = ("--noinput", "--username", "admin", "--email", "admin@cronty.example")
    run(cronty, "manage", "createsuperuser", *person, home=home, folder=folder, variables=password)
    said = run(cronty, "mcp", home=home, folder=folder, typed=HELLO)
    if '"serverInfo"' not in said:
        sys.exit(f"`cronty mcp` said: {said}")


def follow_deployment(wheel: Path, folder: Path) -> None:
    """Install the service as docs/how-to/deploy.md says, in a root folder that is thrown away, and start it."""
    needed = ("/usr/bin/python3", "adduser", "runuser", "systemctl")
    if not can_throw_away() or not all(map(shutil.which, needed)):
        say("Left out: the steps of docs/how-to/deploy.md need root, overlays, adduser and systemd.")
        return
    say("Following docs/how-to/deploy.md …")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = PROJECT / "docs/how-to"
    steps, other = re.findall(r"```sh\n(.*?)```", (pages / "deploy.md").read_text(), flags=re.DOTALL)
    unit = (pages / "deploy/cronty.service").read_text()
    for name in ("cronty.service", "cronty.env"):
        shutil.copy(pages / "deploy" / name, folder)
    shutil.copy(wheel, folder)
    settings = " ".join(re.findall(r"^Environment=(\S+)$", unit, flags=re.MULTILINE))
    (start,) = re.findall(r"^ExecStart=(.+)$", unit, flags=re.MULTILINE)
    # What systemd does for StateDirectory=, EnvironmentFile= and User=, then the line that it starts, and the other command of the page.
    script = f"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
{steps}
install --directory --mode 0700 --owner cronty --group cronty /var/lib/cronty
cd /var/lib/cronty
runuser -u cronty -- env {settings} $(grep -v '^#' /etc/cronty.env) CRONTY_PORT={free_port()} {start} >/tmp/journal 2>&1 & service=$!
until grep "Ctrl-C stops" /tmp/journal; do kill -0 $service || {{ cat /tmp/journal; exit 1; }}; sleep 0.2; done
{other}
kill $service
wait $service || true
"""
    done = run_in_throwaway_root(script, folder=folder)
    if done.returncode or "No jobs." not in done.stdout:
        sys.exit(f"The steps of docs/how-to/deploy.md failed:\n{done.stdout}{done.stderr}")


def follow_dockerfile(image: Path) -> None:
    """Do what the Dockerfile does, with its absolute paths moved into a folder, and start the result."""
    say("Following the Dockerfile …")
    shutil.rmtree(image, ignore_errors=True)
    folders = {"build": image / "build", "": image / "final"}
    stage, workdir = "", Path("/")
    for instruction, rest in instructions((PROJECT / "Dockerfile").read_text()):
        root = folders[stage]
        match instruction:
            case "FROM":
                stage = rest.split(" AS ")[1].strip() if " AS " in rest else ""
                workdir = Path("/")
                folders[stage].mkdir(parents=True, exist_ok=True)
            case "WORKDIR":
                workdir = Path(rest)
                moved(root, workdir).mkdir(parents=True, exist_ok=True)
            case "COPY":
                copy(folders, root, workdir, shlex.split(rest))
            case "RUN" if stage == "build":
                run("sh", "-euc", with_moved_paths(rest, root), folder=moved(root, workdir), quiet=True)
    # An environment names its interpreter by an absolute path, so the copy is started where it was built.
    data = image / "data"
    data.mkdir()
    variables = {"CRONTY_DATA": str(data), "CRONTY_PORT": str(free_port())}
    start = folders["build"] / "opt/cronty/bin/cronty"
    said = run(start, "up", "--check", home=image, folder=data, variables=variables)
    if "\nok:" not in said or not (data / "cronty.sqlite3").exists():
        sys.exit(f"`cronty up --check` in the image's environment said: {said}")


def copy(folders: dict[str, Path], root: Path, workdir: Path, words: list[str]) -> None:
    """Copy files between stages, or from the checkout."""
    source_root = PROJECT
    if words[0].startswith("--from="):
        source_root = folders[words.pop(0).removeprefix("--from=")]
    words = [word for word in words if not word.startswith("--")]
    *sources, target = words
    place = moved(root, workdir / target)
    for name in sources:
        source = source_root / name.lstrip("/")
        if source.is_dir():
            shutil.copytree(
                source, place, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


def instructions(text: str) -> list[tuple[str, str]]:
    """Split a Dockerfile into its instructions; lines that end with a backslash go on."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    return [(name.upper(), rest.strip()) for name, _, rest in (line.partition(" ") for line in whole)]


def with_moved_paths(command: str, root: Path) -> str:
    """Move the image's folders in a command into another one, and use this Python."""
    command = re.sub(r"(?<![\w.])/(opt|src|data)\b", lambda match: f"{root}/{match[1]}", command)
    return command.replace("python3 -m venv", f"{shlex.quote(sys.executable)} -m venv")


def moved(root: Path, path: Path) -> Path:
    return root / str(path).lstrip("/")


def create(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)


def run(
    *command: object,
    home: Path | None = None,
    folder: Path | None = None,
    variables: dict[str, str] | None = None,
    quiet: bool = False,
    typed: str = "",
) -> str:
    """Run a command without this machine's settings of Cronty; return what it printed, or stop with it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_OURS)}
    environment |= {"HOME": str(home)} if home else {}
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=folder or PROJECT,
        env=environment | (variables or {}),
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(f"{shlex.join(map(str, command))} failed:\n{ended.stdout}")
    return ended.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
