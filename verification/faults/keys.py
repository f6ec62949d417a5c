"""Fault of a change of the secret key, one host after the other: no run may fail, and a wrong order is refused."""

import random
import subprocess
import time
from dataclasses import replace

from verification.faults.product import PROJECT, Host, rest
from verification.faults.world import World

CLUSTERS = ("up", "second")
PARTS = (*CLUSTERS, "mcp")
PATIENCE = 60.0


def rotate_key(world: World, dice: random.Random, length: float) -> str:
    """Let every host accept a new key, then use it, then drop the old one; between the first two, try to be too early."""
    file = world.folder / "secret_key"
    old, new = file.read_text().strip(), f"{dice.getrandbits(256):064x}"
    accepting, using = _host(world, old, new), _host(world, new, old)
    first, other = dice.sample(CLUSTERS, 2)
    world.strike()
    try:
        _move(world, first, accepting)
        world.problem = early_problem(_adopt(world, using), other)
        for part in (other, "mcp"):
            _move(world, part, accepting)
        for part in (first, other, "mcp"):
            _move(world, part, using)
        if not _is_used(new):
            world.problem = world.problem or "the new key is not used although every host accepts it"
        _wait_for_token()
    finally:
        # Also if the fault was cut short: a host without the key of the installation does not start.
        if _is_used(new):
            file.write_text(new)
        for part in PARTS:
            _move(world, part, None)
    return f"{first} first"


def early_problem(tried: "subprocess.CompletedProcess[str]", other: str) -> str:
    """Return what is wrong with the answer to a host that uses its key while another one lacks it, or an empty text."""
    if tried.returncode == 0:
        return f"the new key was used although {other} did not accept it"
    if f"do not accept it: {other}." not in tried.stderr:
        return f"the refusal does not name {other}: {tried.stderr[-200:]}"
    return ""


def _host(world: World, key: str, fallback: str) -> Host:
    environment = {"CRONTY_SECRET_KEY": key, "CRONTY_SECRET_KEY_FALLBACKS": fallback}
    return replace(world.product.home, environment=environment)


def _move(world: World, part: str, host: Host | None) -> None:
    """Restart one part with other keys, and wait until everything works."""
    began_at = time.time()
    world.product.move(part, host)
    world.wait_until_recovered(began_at)


def _adopt(world: World, host: Host) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [host.python, "manage.py", "adopt_secret_key"],
        cwd=PROJECT,
        env=world.product.environment | host.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _is_used(key: str) -> bool:
    from schedules.models import Installation  # noqa: PLC0415
    from schedules.secrets.encryption import fingerprint  # noqa: PLC0415

    return Installation.objects.filter(secret_fingerprint=fingerprint(key)).exists()


def _wait_for_token() -> None:
    """Let all tokens go over to the new key at their next use, which happens once a minute otherwise."""
    from schedules.models import Token  # noqa: PLC0415

    before = list(Token.objects.values_list("digest", flat=True))
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and Token.objects.filter(digest__in=before).exists():
        Token.objects.update(last_used_at=None)
        rest(0.5)
