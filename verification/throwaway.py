"""A root folder that shows the files of this host and forgets every change, for steps that only root can do."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# The overlay is in memory and exists in this namespace only: it is gone when the script ends.
ENTER = """\
umask 022
mount -t tmpfs tmpfs "$1"
mkdir "$1/changes" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root$2"
mount --bind "$2" "$1/root$2"
exec chroot "$1/root" sh -euc 'cd "$1"; eval "$2"' sh "$2" "$3"
"""


def can_throw_away() -> bool:
    """Return whether this process may make such a root."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        return run_in_throwaway_root("true", folder=Path(folder)).returncode == 0


def run_in_throwaway_root(script: str, *, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a shell script as root, in a folder that is the host's own; every change outside of it is forgotten."""
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", ENTER, "sh"]
    with tempfile.TemporaryDirectory() as place:
        return subprocess.run(
            [*enter, place, str(folder), script],
            # systemctl then installs units, and starts none.
            env={**os.environ, "SYSTEMD_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
