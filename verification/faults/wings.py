"""The wings under faults: heartbeats, reminders, alerts, events, followers, approvals, `cronty exec` and idempotency keys.

They belong to a person of their own, so that the other rules see only the driver's jobs.
"""

import io
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx2

from verification.faults.excuses import FURTHEST, Bounds, faults_between
from verification.faults.product import PROJECT, rest
from verification.faults.records import History
from verification.faults.world import World, wait_until

OWNER = "wings"
ALERTS, ASKING = "wing-alerts", "wing-asking"
# Seconds: longer than the silence of a cluster that counts as alive, shorter than all is away.
GRACE, AWAY = 20, 25
# A silent job is told within its grace time and this, and events arrive within this.
TOLD, ARRIVES = 30.0, 60.0
WATCHED, SILENT, ASKED = 6, 3, 4
# Failures at once, while a receiver does not answer.
BURST = 40


class Wings(threading.Thread):
    """Uses the wings while faults strike, and judges what became of that."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True, name="wings")
        self._world = world
        self.stopping = threading.Event()
        self.trouble = ""
        # Answers to each idempotency key, acknowledged pings of each address, and when those of successes were.
        self._answers: dict[str, set[str]] = {}
        self._pings: Counter[str] = Counter()
        self._successes: dict[str, list[float]] = defaultdict(list)
        self._commands = 0
        self._addresses: dict[str, str] = {}
        self._spool = world.folder / "spool"
        self._http = httpx2.Client(timeout=8.0)
        self._due: dict[str, float] = {}

    def begin(self) -> None:
        """Create a person, with a place for alerts and two receivers of events, and the jobs."""
        from django.contrib.auth.models import User  # noqa: PLC0415
        from django.core.management import call_command  # noqa: PLC0415

        from schedules.models import Event, Profile  # noqa: PLC0415
        from schedules.result import Ok  # noqa: PLC0415
        from schedules.services.people.channels import set_channel  # noqa: PLC0415
        from schedules.services.people.profiles import profile_of  # noqa: PLC0415
        from schedules.services.permissions import Actor  # noqa: PLC0415

        user = User.objects.create_user(OWNER)
        Profile.objects.filter(pk=profile_of(user).pk).update(failure_topic=ALERTS, topic=ASKING)
        self._actor = Actor(user, Event.Door.WEB)
        out = io.StringIO()
        call_command("issue_token", user=OWNER, name="campaign", stdout=out)
        self._http.headers["Authorization"] = f"Bearer {out.getvalue().strip()}"
        for name in ("good", "deaf"):
            values = {"url": f"{self._world.target}/wing/{name}", "events": "run.failed"}
            assert isinstance(set_channel(self._actor, name, "webhook", values), Ok)
        for number in range(WATCHED):
            self._create(f"watched {number}", "heartbeat", "every 10 seconds", grace=f"{GRACE}")
        for number in range(SILENT):
            self._create(f"silent {number}", "heartbeat", "every 10 seconds", grace=f"{GRACE}")
        for name in ("burst", "exec"):
            self._create(name, "heartbeat", "0 0 1 1 *", grace="1h")
        for number in range(ASKED):
            self._create(
                f"asks {number}", "notify", "0 0 1 1 *", message=f"asks {number}", ask="every 1m 3 times"
            )
            self._post(f"jobs/asks {number}/run")
        self._create("parent", "webhook", "every 3 seconds", url=f"{self._world.target}/wing/parent")
        self._create("follower", "webhook", "after parent ends", url=f"{self._world.target}/wing/follower")
        self._create("asks for leave", "prompt", "every 20 seconds", prompt="Push it.", runner="one")

    def run(self) -> None:
        try:
            while not self.stopping.wait(0.3):
                self.step()
        except Exception as error:
            self.trouble = f"{self.name} gave up: {error!r}"
            raise

    def step(self) -> None:
        for number in range(WATCHED):
            self._now_and_then(f"watched {number}", 12 + number, self._report)
        self._now_and_then("keys", 5, lambda _: self._repeat_a_key())
        self._now_and_then("answers", 3, lambda _: self._answer())

    def end(self) -> list[str]:
        """Stop, send what `exec` has kept, and stop the jobs; return what went wrong."""
        from schedules.models import Job  # noqa: PLC0415

        self.stopping.set()
        self.join(60)
        if self._spool.exists():
            wait_until(lambda: self._exec("--send").wait() == 0, 120)
        Job.objects.filter(owner=self._actor.user.pk).update(status=Job.Status.CANCELLED, next_run_at=None)
        self._http.close()
        return [self.trouble] if self.trouble else []

    def _now_and_then(self, name: str, seconds: float, work: Callable[[str], object]) -> None:
        if time.monotonic() >= self._due.get(name, 0.0):
            self._due[name] = time.monotonic() + seconds
            # Whoever reports tries again soon.
            if work(name) is False:
                self._due[name] = time.monotonic() + 1

    def _report(self, name: str) -> bool:
        """Ping as a backup does, every second one with its start."""
        if int(name[-1]) % 2:
            return self._ping(name)
        rid = uuid.uuid4()
        started = self._ping(name, f"/start?rid={rid}")
        self.stopping.wait(0.5)
        return self._ping(name, f"?rid={rid}") and started

    def _ping(self, name: str, suffix: str = "") -> bool:
        address = self._addresses[name].partition("/ping/")[2]
        with suppress(httpx2.HTTPError):
            answer = self._http.get(f"{self._world.product.url}/ping/{address}{suffix}", timeout=4.0)
            if answer.status_code == 200:
                self._pings[name] += 1
                if not suffix.startswith("/"):
                    self._successes[name].append(time.time())
                return True
        return False

    def fail_in_a_burst(self) -> None:
        for _ in range(BURST):
            self._ping("burst", "/fail")

    def _create(self, name: str, task: str, schedule: str, **kwargs: Any) -> None:
        body = {"name": name, "task": task, "schedule": schedule, "kwargs": kwargs}
        made = None
        while made is None:
            # With the same key, no second job is made.
            made = self._post("jobs", body, name)
        self._answers[name] = {str(made["id"])}
        if task == "heartbeat":
            self._addresses[name] = made["ping_url"]

    def _post(self, path: str, body: Any = None, key: str = "") -> dict[str, Any] | None:
        headers = {"Idempotency-Key": key} if key else {}
        with suppress(httpx2.HTTPError, ValueError):
            url = f"{self._world.product.url}/api/v1/{path}"
            answer = self._http.post(url, json=body, headers=headers)
            if answer.status_code in (200, 201, 202):
                return dict(answer.json())
            if path == "jobs" and answer.status_code in (400, 401, 403, 422):
                raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:300]}")
        return None

    def _repeat_a_key(self) -> None:
        """Create a job with the key of before, or with a new one."""
        key = random.choice(
            [f"key {len(self._answers)}", *[key for key in self._answers if key[:4] == "key "]]
        )
        body = {
            "name": key,
            "task": "webhook",
            "schedule": "0 0 1 1 *",
            "kwargs": {"url": self._world.target},
        }
        self._answers.setdefault(key, set())
        if made := self._post("jobs", body, key):
            self._answers[key].add(str(made["id"]))

    def _answer(self) -> None:
        """Say "done" to one of two reminders, allow what agents ask, and let time pass for the others."""
        from django.db import Error  # noqa: PLC0415

        from schedules import clock  # noqa: PLC0415
        from schedules.models import Approval, Question  # noqa: PLC0415
        from schedules.services.runs.approvals import ONCE, answer_approval  # noqa: PLC0415

        with suppress(Error):
            for approval in Approval.objects.filter(status=Approval.Status.WAITING):
                answer_approval(self._actor, approval.pk, ONCE, seen=approval.digest)
            soon = clock.now() + timedelta(seconds=6)
            Question.objects.filter(due_at__gt=soon).update(due_at=soon)
            asked = Question.objects.filter(status__in=Question.PENDING, reminders__gte=1)
            names = list(asked.values_list("job__name", flat=True))
            for name in names:
                if int(name[-1]) % 2:
                    self._post(f"jobs/{name}/answer", {"answer": "done"})

    def is_awaiting(self) -> bool:
        """Return whether slots of jobs that have reported before wait for their pings."""
        waiting = self._rows(task="heartbeat", status="queued", job__name__startswith="watched")
        return sum(bool(self._successes[row.job.name]) for row in waiting) > 1

    def exec_while_away(self) -> None:
        """Run commands while Cronty is away; SIGTERM and SIGKILL come after their end and before their reports arrive."""
        self._spool.mkdir(exist_ok=True)
        for number, end in enumerate(("terminate", "kill", "terminate")):
            told = self._spool.with_name(f"told-{number}")
            kept = len(list(self._spool.glob("*.json")))
            process = self._exec("--job", self._id_of("exec"), "--", "/bin/sh", "-c", f"echo > {told}")
            wait_until(told.exists, 60)
            with suppress(TimeoutError):
                patience = 5 + 5 * self._world.pace
                wait_until(lambda kept=kept: len(list(self._spool.glob("*.json"))) >= kept + 2, patience)
            getattr(process, end)()
            process.wait()
            told.unlink()
            self._commands += 1

    def _id_of(self, name: str) -> str:
        return self._addresses[name].rpartition("/")[2]

    def _exec(self, *arguments: str) -> "subprocess.Popen[bytes]":
        environment = self._world.product.environment | {
            "CRONTY_URL": self._world.product.url,
            "CRONTY_SPOOL": str(self._spool),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "cronty_site.terminal", "exec", *arguments],
            cwd=PROJECT,
            env=environment,
            stderr=subprocess.DEVNULL,
        )

    def words(self) -> str:
        from schedules.models import Execution  # noqa: PLC0415

        rows = Execution.objects.filter(job__owner=self._actor.user.pk)
        counts = Counter(f"{task} {status}" for task, status in rows.values_list("task", "status"))
        places = Counter(one["place"] for one in self._world.sink.messages)
        return f"wings: {dict(counts)}, received {dict(places)}, pings {sum(self._pings.values())}"

    def problems(self, history: History, bounds: Bounds, *, is_over: bool) -> list[str]:
        """Return what the wings say that is not so, or do not say."""
        rules: list[Callable[[History, Bounds], Iterator[str]]] = [
            self._heartbeats,
            self._alerts,
            self._events,
            self._reminders,
            self._followers,
            self._approvals,
            self._keys,
        ]
        if is_over:
            rules.append(self._whole_commands)
        return [words for rule in rules for words in rule(history, bounds)]

    def _rows(self, **where: Any) -> list[Any]:
        from schedules.models import Execution  # noqa: PLC0415

        rows = Execution.objects.filter(job__owner=self._actor.user.pk, **where).select_related("job")
        return list(rows.defer("traceback", "result").order_by("pk"))

    def _heartbeats(self, history: History, bounds: Bounds) -> Iterator[str]:
        from schedules.models import Heartbeat  # noqa: PLC0415

        now = time.time()
        last: dict[int, str] = {}
        away = [fault for fault in history.faults if fault.kind == "kill-all"]
        for row in self._rows(task="heartbeat", cause="schedule"):
            was_failing = last.get(row.job_id) == "failed"
            last[row.job_id] = row.status
            begin = (row.started_at or row.scheduled_for).timestamp()
            end = row.finished_at.timestamp() if row.finished_at else now
            words = f"{row.job.name} of {row.scheduled_for:%H:%M:%S} is {row.status}"
            kinds = {fault.kind for fault in faults_between(history, begin, end)}
            is_shifted = any(kind.startswith("clock") for kind in kinds)
            if row.status == "failed" and end < begin + GRACE - 1 and not is_shifted:
                yield f"{words} {end - begin:.0f} s after its begin, but has {GRACE} s: {row.error}"
            if row.job.name.startswith("watched") and row.status == "failed" and not is_shifted:
                successes = self._successes[row.job.name]
                # The end of one run does not end another one that was started.
                if row.started_at is None and any(begin + 1 < at < end - 1 for at in successes):
                    yield f"{words}, and a success was acknowledged: {row.error}"
                was_away = any(begin < fault.ended_at and fault.began_at < end for fault in away)
                if was_away and not was_failing and any(at < begin for at in successes):
                    yield f"{words} although Cronty was away: {row.error}"
            if row.job.name.startswith("silent") and end > begin + GRACE + _patience(
                history, bounds, begin, end, TOLD
            ):
                yield f"{words} only after {end - begin:.0f} s"
        for beat in Heartbeat.objects.filter(owner=self._actor.user.pk).select_related("job"):
            if beat.pings < (count := self._pings[beat.job.name]):
                yield f"{beat.job.name} has {beat.pings} pings, but {count} were acknowledged"

    def _alerts(self, history: History, bounds: Bounds) -> Iterator[str]:
        """Each silent job is told, and not again and again; a restart that is soon over is not told at all."""
        from schedules.models import Incident  # noqa: PLC0415

        told = Counter(
            name
            for message in self._messages(ALERTS)
            for name in (f"silent {number}" for number in range(SILENT))
            if name in f"{message['body']}"
        )
        for incident in Incident.objects.filter(owner=self._actor.user.pk):
            opened = incident.opened_at.timestamp()
            kinds = {fault.kind for fault in history.faults if abs(fault.began_at - opened) < FURTHEST}
            is_outage = incident.kind in (Incident.Kind.MISSED, Incident.Kind.NO_WORKER)
            if is_outage and incident.told and not any(kind.startswith("clock") for kind in kinds):
                yield f"{incident.name}: {incident.get_kind_display()} was told after a restart: {incident.details}"
            if incident.kind != Incident.Kind.FAILING:
                continue
            is_old = time.time() > opened + _patience(history, bounds, opened, time.time(), TOLD)
            if incident.ended_at is None and is_old and not incident.told:
                yield f"nobody was told that {incident.name} fails"
            if incident.name.startswith("silent") and is_old and not 0 < told[incident.name] <= 2:
                yield f"{told[incident.name]} messages named {incident.name}"

    def _events(self, history: History, bounds: Bounds) -> Iterator[str]:
        sink, now = self._world.sink, time.time()
        for receiver in ("good", "deaf"):
            got: dict[int, set[str]] = {}
            for message in self._messages(f"/wing/{receiver}"):
                got.setdefault(message["body"]["data"]["run"]["id"], set()).add(message["body"]["id"])
            # After a second attempt, the next one is minutes later.
            again = {row.origin for row in self._rows(job__webhook__name=receiver, attempt__gt=1)}
            for row in self._rows(status="failed", job__webhook=None):
                end = row.finished_at.timestamp()
                if row.job.public_id.startswith("notice") or row.pk in again:
                    continue
                if len(got.get(row.pk, ())) > 1:
                    yield f"{receiver} got {len(got[row.pk])} events of one failure of {row.job.name}"
                if row.pk not in got and now > end + _patience(history, bounds, end, now, ARRIVES):
                    yield f"{receiver} got no event of {row.job.name}, which failed {now - end:.0f} s ago"
        if sink.most_at_once > 4:
            yield f"{sink.most_at_once} requests at once waited for a receiver"

    def _reminders(self, history: History, bounds: Bounds) -> Iterator[str]:
        from schedules.models import Question, Reminder  # noqa: PLC0415

        now = time.time()
        for question in Question.objects.filter(job__owner=self._actor.user.pk).select_related("job"):
            sent = list(
                Reminder.objects.filter(question=question).values_list("number", "execution__scheduled_for")
            )
            name, due = question.job.name, question.due_at
            numbers = sorted(number for number, _ in sent)
            if numbers != list(range(1, len(numbers) + 1)):
                yield f"{name} sent the reminders {numbers}"
            if question.answered_at and any(at > question.answered_at for _, at in sent):
                yield f"{name} reminded after its answer"
            keys = {one["key"] for one in self._messages(ASKING) if one["body"]["message"] == name}
            if len(keys) > 1 + len(sent):
                yield f"{name} sent {len(keys)} messages, not {1 + len(sent)}"
            if due and now > due.timestamp() + _patience(history, bounds, due.timestamp(), now, TOLD):
                yield f"{name} does not remind, which was due {now - due.timestamp():.0f} s ago"

    def _followers(self, history: History, bounds: Bounds) -> Iterator[str]:
        ended = [
            row for row in self._rows(job__name="parent") if row.status in ("succeeded", "failed", "lost")
        ]
        started = Counter(row.origin for row in self._rows(job__name="follower"))
        for row in ended:
            if started[row.pk] != 1:
                yield f"{started[row.pk]} runs followed the parent's run {row.pk}, not 1"

    def _approvals(self, history: History, bounds: Bounds) -> Iterator[str]:
        from schedules.models import Approval  # noqa: PLC0415

        made = len(self._world.program.made)
        if made > (used := Approval.objects.filter(status=Approval.Status.USED).count()):
            yield f"{made} calls were made, but {used} were allowed"
        for row in self._rows(task="prompt", status__in=("failed", "lost")):
            begin, end = row.scheduled_for.timestamp(), row.finished_at.timestamp()
            if not faults_between(history, begin, end, and_healing=bounds):
                yield f"the run {row.pk} of an agent is {row.status} without a fault: {row.error}"

    def _keys(self, history: History, bounds: Bounds) -> Iterator[str]:
        from schedules.models import Job  # noqa: PLC0415

        made = Counter(Job.objects.filter(owner=self._actor.user.pk).values_list("name", flat=True))
        for key, ids in self._answers.items():
            if len(ids) > 1 or made[key] > 1 or made[key] < len(ids):
                yield f"the idempotency key {key} made {made[key]} jobs and answered {ids}"

    def _whole_commands(self, history: History, bounds: Bounds) -> Iterator[str]:
        from schedules.models import Ping  # noqa: PLC0415

        kinds: dict[Any, list[str]] = {}
        pings = Ping.objects.filter(heartbeat__job__name="exec", heartbeat__owner=self._actor.user.pk)
        for rid, kind in pings.order_by("pk").values_list("rid", "kind"):
            kinds.setdefault(rid, []).append(kind)
        whole = sum(one == ["start", "success"] for one in kinds.values())
        if whole != self._commands or len(kinds) > whole:
            yield f"{whole} of {self._commands} commands were reported whole: {list(kinds.values())}"

    def _messages(self, place: str) -> list[dict[str, Any]]:
        return [one for one in list(self._world.sink.messages) if one["place"] == place]


def _patience(history: History, bounds: Bounds, begin: float, end: float, seconds: float) -> float:
    """Return how long something may take that began then: longer by the faults since, and on a slow machine."""
    faults = faults_between(history, begin, end, and_healing=bounds)
    return seconds * bounds.pace + sum(
        one.ended_at - one.began_at + bounds.heals_within(one.kind) for one in faults
    )


def kill_all(world: World, dice: random.Random, length: float) -> str:
    """Kill everything, and stay away for longer than the heartbeats' grace time; commands report meanwhile."""
    if world.wings:
        with suppress(TimeoutError):
            wait_until(world.wings.is_awaiting, 60)
    with world.product.standing_still():
        world.strike()
        until = time.monotonic() + AWAY + dice.uniform(0, 10) * length
        if world.wings:
            world.wings.exec_while_away()
        rest(max(0.0, until - time.monotonic()))
    return ""


def receiver_deaf(world: World, dice: random.Random, length: float) -> str:
    """Let a receiver of events answer nothing while many runs fail: they wait in line, and then arrive soon."""
    if not world.wings:
        return "no wings"
    world.sink.is_deaf = True
    world.sink.unanswered.clear()
    before = _burst(one["body"] for one in world.sink.messages if one["place"] == "/wing/deaf")
    world.wings.fail_in_a_burst()
    rest(15 + 15 * length)
    world.sink.is_deaf = False
    tried = _burst(world.sink.unanswered)
    # After a second attempt, the next one is minutes later.
    spent = {event for event, count in tried.items() if count > 1}

    def settled() -> int:
        here = _burst(one["body"] for one in list(world.sink.messages) if one["place"] == "/wing/deaf")
        return len((here.keys() - before.keys()) | spent)

    with suppress(TimeoutError):
        wait_until(lambda: settled() >= BURST, ARRIVES * world.pace)
    if settled() < BURST or len(spent) > BURST / 3:
        world.problem = (
            f"{settled()} of {BURST} events arrived soon or spent two attempts, which {len(spent)} did"
        )
    return f"{len(spent)} spent two attempts"


def _burst(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count the requests of each event of the burst."""
    return Counter(event["id"] for event in events if event["data"]["job"]["name"] == "burst")
