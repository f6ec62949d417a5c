"""Stored text never runs as a script on any page."""

from collections.abc import Callable
from datetime import timedelta

from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Event, Job
from tests.browser.conftest import Visitor, full_matrix
from tests.browser.matrix import all_pages
from tests.browser.payloads import PAYLOADS
from tests.factories import ExecutionFactory, JobFactory, TokenFactory


def store_everywhere(owner: User, texts: list[str]) -> list[Job]:
    """Store a text in every field and output that a page shows."""
    now = clock.now()
    jobs = []
    for place, text in enumerate(texts):
        job = JobFactory(
            owner=owner,
            name=text[:200],
            task="prompt",
            kwargs={"prompt": text, text[:50]: text},
            args=[text],
            tags=[text[:50]],
            label=text[:200],
            made_by=text[:150],
            last_error=text,
            failure_streak=1,
            recent="SF",
            last_run_at=now,
            **({"paused": True, "pause_reason": text[:200]} if place % 2 else {}),
        )
        moment = now - timedelta(minutes=place)
        common = {"job": job, "leased_to": text[:150], "reason": text[:300]}
        ExecutionFactory(status="waiting", scheduled_for=moment, **common)
        ExecutionFactory(
            status="failed",
            scheduled_for=moment - timedelta(days=1),
            error=text,
            traceback=text,
            result={text: text},
            **common,
        )
        Event.objects.create(
            at=now,
            owner=owner,
            actor=text[:150],
            door="mcp",
            verb=text[:20],
            job=job,
            subject=text[:200],
            before={text: text},
            after={text: [text]},
        )
        TokenFactory(owner=owner, name=text[:100])
        jobs.append(job)
    JobFactory(owner=owner, name=texts[0], deleted_at=now)
    return jobs


@full_matrix
def test_stored_text_never_runs_as_a_script(visit: Callable[..., Visitor], jobs: dict[str, Job], owner: User):
    poisoned = store_everywhere(owner, PAYLOADS)
    visitor = visit()
    paths = list(all_pages(jobs).values())
    for job in poisoned:
        run = job.executions.filter(status="failed")[0]
        paths += [f"/jobs/{job.public_id}/", f"/jobs/{job.public_id}/edit/", f"/runs/{run.pk}/"]

    for path in paths:
        page = visitor.open(path)
        assert page.evaluate("document.documentElement.dataset.xss") is None, path
        assert page.locator("xss, embed, object, iframe, marquee, template").count() == 0, path
        following = page.locator("a[rel=next]")
        if path in ("/", "/runs/", "/inbox/") or "after=" in path:
            paths += [f"{path.partition('?')[0]}{link.get_attribute('href')}" for link in following.all()]

    assert any("after=" in path for path in paths)
    assert [each for each in visitor.complaints if "evil" in each] == []
    assert visitor.complaints == []
