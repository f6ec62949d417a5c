"""How does one job or one run look in a list? Written in Python: a list page has fifty of them."""

import re
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from schedules import clock
from schedules.models import Execution, Job
from schedules.services.reading import words_of
from schedules.templatetags.charts import strip
from schedules.templatetags.cronty import (
    ago,
    at,
    cause,
    day_and_clock,
    duration,
    expression,
    last_outcome,
    status,
    task_title,
)

register = template.Library()

SHOWN_TAGS = 2
_WEEKDAY = re.compile(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day")
SHOWN_ERROR = 120


@register.simple_tag
def job_row(job: Job, page: Any) -> SafeString:
    """A job in two lines: how it stands, what and when, next and last run, its strip, and its buttons."""
    address = reverse("schedules:job", args=[job.public_id])
    name, zone, spoken = escape(job.name), escape(job.timezone), words_of(job)
    return mark_safe(  # noqa: S308  # nosec B308 B703
        f'<tr id="job-{job.pk}">'
        f'<td class="c-sel"><input type="checkbox" name="job" value="{escape(job.public_id)}" aria-label="Tick {name}"></td>'
        f'<td class="c-st">{status(job.standing)}</td>'  # type: ignore[attr-defined]
        f'<td class="c-name"><a class="name cut" href="{address}" title="{name}">{name}</a>'
        f'<span class="second line"><span class="cut">{escape(task_title(job.task))}</span>{_tags(job)}{_people(job, page)}</span></td>'
        f'<td data-l="Schedule"><div class="v"><span class="cut" title="{escape(spoken)}">{escape(_short(job, spoken))}</span>'
        f'<span class="second"><code>{escape(expression(job))}</code> {zone}</span></div></td>'
        f'<td data-l="Next run"><div class="v">{_next(job, page.zone)}</div></td>'
        f'<td data-l="Last run"><div class="v">{_last(job, page.zone)}</div></td>'
        f"<td>{strip(job.recent)}</td>"
        f'<td class="c-act act"><div>{_buttons(job, name)}</div></td></tr>'
    )


def _people(job: Job, page: Any) -> str:
    maker = f"· {escape(job.made_by)}" if job.made_by else ""
    is_foreign = page.actor.sees_all and job.owner.get_username() != job.made_by
    owner = f" for {escape(job.owner.get_username())}" if is_foreign else ""
    return f'<span class="cut">{maker}{owner}</span>'


def _short(job: Job, sentence: str) -> str:
    """Say when a job fires so that it fits its column; the full sentence is in the title."""
    if job.run_at:
        return day_and_clock(job.run_at, job.timezone, clock.now())
    return _WEEKDAY.sub(lambda match: match[0][:3], sentence).replace(" through ", "\N{EN DASH}")


def _tags(job: Job) -> str:
    shown = "".join(
        f' <a class="tag" href="{reverse("schedules:jobs")}?{escape(urlencode({"tag": tag}))}">{escape(tag)}</a>'
        for tag in job.tags[:SHOWN_TAGS]
    )
    more = len(job.tags) - SHOWN_TAGS
    return f"{shown} +{more}" if more > 0 else shown


def _next(job: Job, zone: str) -> str:
    if job.next_run_at:
        return f'{ago(job.next_run_at, zone)}<span class="second">{at(job.next_run_at, zone)}</span>'
    if job.paused_until:
        return f'<span class="mut">resumes</span><span class="second">{at(job.paused_until, zone)}</span>'
    reason = f'<span class="second" title="{escape(job.pause_reason)}">{escape(job.pause_reason)}</span>'
    return f'<span class="mut">{"paused" if job.status == Job.Status.PAUSED else "—"}</span>{reason if job.pause_reason else ""}'


def _last(job: Job, zone: str) -> str:
    if job.last_run_at is None:
        return '<span class="mut">never</span>'
    error = job.last_error[:SHOWN_ERROR] if job.failure_streak else ""
    outcome = error or last_outcome(job.recent)
    title = f' title="{escape(job.last_error[:500])}"' if error else ""
    return f'{ago(job.last_run_at, zone)}<span class="second"{title}>{escape(outcome)}</span>'


def _buttons(job: Job, name: str) -> str:
    run = reverse("schedules:run-now", args=[job.public_id])
    button = f'<button class="btn tiny" id="run-{job.pk}" formaction="{run}" aria-label="Run {name} now">Run</button>'
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return button
    is_on = job.status == Job.Status.PENDING
    target = reverse("schedules:pause" if is_on else "schedules:resume", args=[job.public_id])
    return (
        f'{button}<button class="switch" role="switch" id="switch-{job.pk}" aria-checked="{"true" if is_on else "false"}"'
        f' formaction="{target}" aria-label="{name} is on" title="{"Pause" if is_on else "Resume"}"></button>'
    )


@register.simple_tag
def run_row(run: Execution, zone: str, *, show_job: bool = False) -> SafeString:
    """A run in one line."""
    address = reverse("schedules:run", args=[run.pk])
    job = f'<td class="job">{_job_link(run)}</td>' if show_job else ""
    outcome = escape((run.error or run.reason)[:SHOWN_ERROR])
    planned = run.scheduled_for
    return mark_safe(  # noqa: S308  # nosec B308 B703
        f'<tr id="run-{run.pk}"><td class="r-st">{status(run.status)}</td>{job}'
        f'<td class="r-plan"><a href="{address}">{at(planned, zone)}</a></td>'
        f'<td class="r-when mut">{ago(planned, zone)}</td>'
        f'<td class="r-took nowrap">{duration(run.took)}</td>'
        f'<td class="r-late nowrap">{duration(run.lateness)}</td>'
        f'<td class="r-cause mut nowrap">{cause(run.cause)}</td>'
        f'<td class="out"><span class="second">{outcome}{_slots(run)}</span></td></tr>'
    )


def _slots(run: Execution) -> str:
    return f" ({run.slots:,} slots)" if run.slots > 1 else ""


def _job_link(run: Execution) -> str:
    if run.job and run.job.deleted_at is None:
        return f'<a class="quiet strong cut" href="{reverse("schedules:job", args=[run.job.public_id])}">{escape(run.job_name)}</a>'
    return f'<span class="mut">{escape(run.job_name)}</span>'
