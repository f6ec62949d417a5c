"""Signatures of webhooks, and the examples for receivers in docs/how-to/webhooks.md."""

import re
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from schedules import clock
from schedules.tasks.outbound.signing import OVERLAP, current_keys, job_key, signature_header
from tests.waiting import PATIENCE

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "webhooks.md"
BODY = '{"text": "Grüße"}\n'.encode()
IDEMPOTENCY_KEY = "job_1_2@20260204T090000.000000Z"


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_every_job_and_every_version_has_a_key_of_its_own():
    keys = [
        job_key(*given)
        for given in (("a", "job_1", 1), ("a", "job_1", 2), ("a", "job_2", 1), ("b", "job_1", 1))
    ]

    assert len(set(keys)) == 4
    assert all(re.fullmatch(r"whsec_[0-9a-f]{64}", key) for key in keys)
    assert job_key("a", "job_1", 1) == keys[0]


def test_old_key_is_used_until_the_overlap_ends():
    now = clock.now()

    def keys(version, changed_at):
        return current_keys("a", "job_1", version, changed_at, now)

    first, second = job_key("a", "job_1", 1), job_key("a", "job_1", 2)
    assert keys(1, None) == (first,)
    assert keys(2, now) == (second, first)
    assert keys(2, now - OVERLAP + timedelta(seconds=1)) == (second, first)
    assert keys(2, now - OVERLAP) == (second,)


def test_no_part_of_what_is_signed_can_be_moved_into_another():
    signed = {
        signature_header(["k"], *parts)
        for parts in (
            ("1", "a.b", b"c"),
            ("1", "a", b"b.c"),
            ("1", "a", b".b.c"),
            ("1", "", b"a.b.c"),
            ("1", "a.b.c", b""),
        )
    }

    assert len(signed) == 5


def check_in_python(*given: str, body: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    call = "import sys; sys.exit(not is_genuine(*sys.argv[1:5], open(sys.argv[5], 'rb').read()))"
    return run([sys.executable, "-c", f"{example('python')}\n{call}"], given, body, folder)


def check_in_javascript(*given: str, body: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    call = "const a = process.argv.slice(1); const body = require('node:fs').readFileSync(a[4]);"
    call += "process.exit(isGenuine(a[0], a[1], a[2], a[3], body) ? 0 : 1);"
    return run(["node", "-e", f"{example('javascript')}\n{call}", "--"], given, body, folder)


def check_in_shell(*given: str, body: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    return run(["sh", "-c", f'{example("sh")}\nis_genuine "$@"', "sh"], given, body, folder)


def run(
    command: list[str], given: tuple[str, ...], body: bytes, folder: Path
) -> subprocess.CompletedProcess[str]:
    (folder / "body").write_bytes(body)
    return subprocess.run(
        [*command, *given, str(folder / "body")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("needs", "check"),
    [
        pytest.param(sys.executable, check_in_python, id="Python"),
        pytest.param("node", check_in_javascript, id="JavaScript"),
        pytest.param("openssl", check_in_shell, id="shell"),
    ],
)
def test_documented_example_accepts_genuine_requests_only(needs, check, tmp_path):
    if shutil.which(needs) is None:
        pytest.skip(f"{needs} is not installed")
    new, old = "whsec_new", "whsec_old"
    now, long_ago = str(int(time.time())), str(int(time.time()) - 301)

    def answer(key, *, timestamp=now, signed_at=now, idempotency_key=IDEMPOTENCY_KEY, body=BODY):
        header = signature_header([new, old], signed_at, IDEMPOTENCY_KEY, BODY)
        done = check(key, timestamp, idempotency_key, header, body=body, folder=tmp_path)
        assert done.stderr == ""
        return done.returncode

    assert [answer(new), answer(old)] == [0, 0]
    assert answer("whsec_other") == 1
    assert answer(new, body=BODY + b" ") == 1
    assert answer(new, idempotency_key="another") == 1
    assert answer(new, timestamp=long_ago, signed_at=long_ago) == 1
    assert answer(new, timestamp="soon") == 1
