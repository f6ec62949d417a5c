"""The steps of docs/how-to/deploy.md, done as root in a root folder that is thrown away.

An overlay in a mount namespace of its own shows the host's files and keeps every change in memory. `make dist` does the
same with the wheel.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.clusters import PROJECT
from verification.throwaway import can_throw_away, run_in_throwaway_root

PAGE = (PROJECT / "docs/how-to/deploy.md").read_text()
# Says how it was started, instead of starting Cronty.
STAND_IN = """\
mkdir -p /opt/cronty/bin
printf '#!/bin/sh\\necho "$(id -un) in $CRONTY_DATA at $CRONTY_URL: $*"\\n' > /opt/cronty/bin/cronty
chmod 755 /opt/cronty/bin/cronty
"""
EXTRA = """\
stat -c "settings have mode %a" /etc/cronty.env
systemctl stop cronty
ls -l /etc/systemd/system/multi-user.target.wants/cronty.service
{rate} >/dev/null
"""


def test_service_is_installed_as_the_page_says(tmp_path: Path):
    if not can_throw_away() or not shutil.which("systemctl") or not shutil.which("adduser"):
        pytest.skip("needs root, overlays, adduser and systemd")
    steps, other = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    (install,) = re.findall(r"^python3 -m venv .*$", steps, flags=re.MULTILINE)
    (rate,) = re.findall(r"`(systemd-analyze security .*?)`", PAGE)
    script = steps.replace(install, STAND_IN) + other + EXTRA.format(rate=rate)
    for name in ("cronty.service", "cronty.env"):
        shutil.copy(PROJECT / "docs/how-to/deploy" / name, tmp_path)

    done = run_in_throwaway_root(script, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "cronty in /var/lib/cronty at https://cronty.example: jobs" in done.stdout
    assert "settings have mode 600" in done.stdout
    assert "-> /etc/systemd/system/cronty.service" in done.stdout
