"""Benchmark of jobs that fire while people reload the jobs page: lateness without them and with them.

Usage: `python -m verification.bench.visitors [people]`, on SQLite or DATABASE_URL, with 10 people unless told otherwise.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPConnection

from verification.bench import harness

DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Profile  # noqa: E402

JOBS = 200
BURSTS = 5


@contextmanager
def visitors(count: int, port: int, cookie: str) -> Iterator[list[float]]:
    """Let people reload the jobs page, one request after the other, inside the block; yield how long each took."""
    is_over = threading.Event()
    took: list[float] = []

    def visit() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        while not is_over.is_set():
            begin = time.perf_counter()
            connection.request("GET", "/", headers={"Cookie": cookie})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, f"the page answered {answer.status}"
            took.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=visit) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield took
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def bursts() -> list[float]:
    """Let jobs fire at once, several times; return how late each began."""
    late: list[float] = []
    for _ in range(BURSTS):
        harness.make_jobs([clock.now() + timedelta(seconds=2)] * JOBS, "bench.coroutine")
        harness.wait_until_settled(JOBS)
        late += harness.seconds_late()
        harness.forget_everything()
    assert len(late) == JOBS * BURSTS, f"{len(late)} calls"
    assert min(late) >= 0, "a job started early"
    return late


def main() -> None:
    people = int(sys.argv[1]) if sys.argv[1:] else 10
    call_command("collectstatic", verbosity=0, interactive=False)
    owner, _ = User.objects.get_or_create(username="bench")
    Profile.objects.get_or_create(user=owner)
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    cookie = "; ".join(f"{name}={value.value}" for name, value in client.cookies.items())
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    with harness.cluster(), harness.web() as port:
        harness.wait_for_worker()
        alone = harness.percentile(bursts(), 0.99)
        with visitors(people, port, cookie) as took:
            beside = harness.percentile(bursts(), 0.99)
    harness.show(f"{database}_{JOBS}_coroutines_p99", alone, "s")
    harness.show(f"{database}_{JOBS}_coroutines_beside_{people}_people_p99", beside, "s")
    harness.show(f"{database}_ratio", beside / alone, "times")
    harness.show(f"{database}_page_p50", 1000 * harness.percentile(took, 0.5), "ms")
    harness.show(f"{database}_pages", len(took), "pages")
    print(f"# load {harness.load()}")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
