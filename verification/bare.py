"""The two commands of the README on a bare Debian 12, as an ordinary user: `make bare`.

A minimal system made by debootstrap, with only python3, pip and make, shows dependencies that a developer's machine hides.
It needs root. The mirror and the settings of pip come from this machine, at run time.
"""

import argparse
import ast
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache" / "bare"
SUITE = "bookworm"
PACKAGES = ("python3", "python3-pip", "make", "ca-certificates")
USER = "somebody"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Set for the copy of this program that runs in its own namespace.
INSIDE = "CRONTY_BARE_INSIDE"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1, help="repeat on a fresh copy of the system")
    parser.add_argument("--only", choices=["up", "test"], help="run one of the two commands")
    parser.add_argument("--test-args", default="", help="ARGS for `make test`")
    parser.add_argument("--rebuild", action="store_true", help="make the base system anew")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        say("`make bare` needs root and debootstrap: run it as root on a Debian machine.")
        return 2
    if INSIDE not in os.environ:
        return enter_namespace()
    base = base_system(is_new=options.rebuild)
    for number in range(1, options.times + 1):
        for command in commands(options):
            say(f"--- {number} of {options.times}: {command}")
            began = time.monotonic()
            code = run_in_copy(base, command)
            say(f"--- {command}: exit code {code} after {time.monotonic() - began:.0f} s")
            if code:
                return code
    say(f"Both commands passed {options.times} times." if not options.only else "Passed.")
    return 0


def enter_namespace() -> int:
    """Run this program again in its own mount and process namespaces, which the kernel always cleans up."""
    wrapper = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    command = [*wrapper, sys.executable, "-m", "verification.bare", *sys.argv[1:]]
    return subprocess.run(command, cwd=PROJECT, env=os.environ | {INSIDE: "1"}, check=False).returncode


def commands(options: argparse.Namespace) -> list[str]:
    test = f"make test ARGS={shlex.quote(options.test_args)}" if options.test_args else "make test"
    known = {"up": "make up ARGS=--check", "test": test}
    return [known[options.only]] if options.only else list(known.values())


def base_system(*, is_new: bool) -> Path:
    """Return a minimal system with all updates; it is created once and cached."""
    base, draft = CACHE / "base", CACHE / "draft"
    if is_new or not base.exists():
        for folder in (base, draft):
            shutil.rmtree(folder, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        say(f"Making a minimal Debian ({SUITE}) …")
        include = f"--include={','.join(PACKAGES)}"
        run("debootstrap", "--variant=minbase", include, SUITE, str(draft), mirror())
        run("chroot", str(draft), "useradd", "--create-home", "--shell", "/bin/sh", USER)
        draft.rename(base)
    say("Bringing it up to date …")
    (base / "etc/apt/sources.list").write_text("\n".join(sources()) + "\n")
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(f"/etc/{name}", base / "etc" / name)
    for arguments in (("update",), ("--yes", "dist-upgrade"), ("clean",)):
        run("chroot", str(base), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *arguments)
    return base


def sources() -> list[str]:
    """Return this machine's own package sources of the suite, for main, as lines of sources.list."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {tuple(line.split()) for line in done.stdout.splitlines()}
    lines = sorted(
        f"deb {site} {release} main"
        for site, release, component in found
        if component == "main" and release.split("-")[0].split("/")[0] == SUITE
    )
    if not lines:
        raise SystemExit(f"This machine's apt knows no mirror of Debian {SUITE}: add one to its sources.")
    return lines


def mirror() -> str:
    return next(line.split()[1] for line in sources() if line.split()[2] == SUITE)


def run_in_copy(base: Path, command: str) -> int:
    """Run a command in a fresh copy of the system, in a fresh copy of the committed tree."""
    root = CACHE / "run"
    shutil.rmtree(root, ignore_errors=True)
    run("cp", "--archive", "--reflink=auto", str(base), str(root))
    try:
        mount_kernel_folders(root)
        share_pip(root)
        home = root / "home" / USER
        tree = home / "cronty"
        tree.mkdir()
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=PROJECT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "--extract", "--directory", str(tree)], input=archive.stdout, check=True)
        run("chroot", str(root), "chown", "--recursive", f"{USER}:{USER}", f"/home/{USER}")
        environment = {"HOME": f"/home/{USER}", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "USER": USER}
        environment |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        done = subprocess.run(
            [
                *("chroot", f"--userspec={USER}:{USER}", str(root), "env", "--ignore-environment"),
                *(f"{name}={value}" for name, value in environment.items()),
                *("sh", "-c", f"cd ~/cronty && {command}"),
            ],
            check=False,
        )
        return done.returncode
    finally:
        unmount_all(root)
        shutil.rmtree(root, ignore_errors=True)


def mount_kernel_folders(root: Path) -> None:
    run("mount", "-t", "proc", "proc", str(root / "proc"))
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root / "dev"))
    (root / "dev/shm").mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(root / "dev/shm"))
    (root / "dev/pts").mkdir()
    run(
        "mount",
        "-t",
        "devpts",
        "-o",
        "newinstance,ptmxmode=0666,mode=620,gid=5",
        "devpts",
        str(root / "dev/pts"),
    )
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    for name in DEVICES:
        (root / "dev" / name).touch()
        run("mount", "--bind", f"/dev/{name}", str(root / "dev" / name))
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (root / "dev" / name).symlink_to(target)


def unmount_all(root: Path) -> None:
    """Unmount everything below the copy, the innermost first, before it is deleted."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in sorted((point for point in points if point.startswith(f"{root}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)


def share_pip(root: Path) -> None:
    """Give the copy this machine's pip settings and the local folders that they name."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    settings = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = " ".join(str(ast.literal_eval(value)).split())
    lines = [f"{name} = {value}" for name, value in settings.items()]
    (root / "etc/pip.conf").write_text("\n".join(["[global]", *lines]) + "\n")
    for folder in sorted(set(local_folders(settings.values()))):
        inside = root / str(folder).lstrip("/")
        if folder.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        run("mount", "--bind", "--options", "ro", str(folder), str(inside))


def local_folders(values: Iterable[str]) -> Iterator[Path]:
    for word in (word for value in values for word in value.split()):
        path = Path(urlsplit(word).path if word.startswith("file://") else word)
        if path.is_absolute() and path.exists():
            # The pages of an index link to files beside it.
            yield path.parent if path.name == "simple" else path


def run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
