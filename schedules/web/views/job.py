"""The page of one job, and the actions on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import clock, services
from schedules.models import Event, Execution, Job
from schedules.models.keysets import Segment
from schedules.result import Err, Ok, Result, sentence
from schedules.services.reading import preview_of
from schedules.signing import OVERLAP
from schedules.templatetags.cronty_times import duration
from schedules.web.views import states
from schedules.web.views.editing import job_address, run_address
from schedules.web.views.page import (
    Page,
    PageMixin,
    actor_of,
    back,
    page_of,
    problem_text,
    show_problem,
)
from schedules.web.views.paging import read_page
from schedules.when.moments import in_the_past
from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.skips import still_ahead

BARS = 60
RUNS = 20
PAUSE = ("reason", "until")


@dataclass(frozen=True)
class Health:
    """Statistics of the last runs."""

    runs: list[Execution]

    @property
    def ended(self) -> list[Execution]:
        return [
            run
            for run in self.runs
            if run.status in Execution.FINAL and run.status != Execution.Status.SKIPPED
        ]

    @property
    def success(self) -> str:
        ended = self.ended
        if not ended:
            return "—"
        good = sum(run.status == Execution.Status.SUCCEEDED for run in ended)
        # Never round a failure away.
        return f"{good * 100 // len(ended)}%"

    @property
    def median(self) -> timedelta | None:
        return percentile([run.took for run in self.runs if run.took], 50)

    @property
    def p95(self) -> timedelta | None:
        return percentile([run.took for run in self.runs if run.took], 95)

    @property
    def lateness(self) -> timedelta | None:
        return percentile([run.lateness for run in self.runs if run.lateness], 95)


def percentile(values: Sequence[timedelta], percent: int) -> timedelta | None:
    """Return a percentile by the nearest-rank method, or None without values."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


class JobPage(PageMixin, TemplateView):
    template_name = "schedules/job.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, job_id = self.page.now, kwargs["job_id"]
        found = self.actor.jobs().select_related("owner").called(job_id)
        job = next(iter(states.named(states.with_rank(found, now))), None)
        if job is None:
            raise Http404("job")
        runs = (
            Execution.objects.filter(job=job).order_by("-scheduled_for", "-pk").defer("traceback", "result")
        )
        last = list(runs[:BARS])
        asked = {name: self.request.GET.get(name, "") for name in ("outcome", "cause")}
        found = _narrowed(runs, asked)
        walked = runs if found is not runs else None
        listed = read_page([Segment(found, ("-scheduled_for", "-pk"), walked)], self.request, RUNS)
        return super().get_context_data(
            job=job,
            preview=preview_of(job, now),
            health=Health(last[::-1]),
            listed=listed,
            asked=asked,
            outcomes=Execution.Status.values,
            causes=Execution.Cause.values,
            policies=policies(job),
            events=Event.objects.filter(job=job)[:10],
            is_moving=any(run.status in states.MOVING for run in last),
            **self._rights(job),
            crontab=crontab_line(job),
            signing_keys=services.signing_keys_of(self.actor, job, now),
            overlap_days=OVERLAP.days,
            **self._why(job),
            **self._pause(),
            **kwargs,
        )

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        response = super().render_to_response(context, **kwargs)
        if context["signing_keys"]:
            response["Cache-Control"] = "no-store"
        return response

    def _rights(self, job: Job) -> dict[str, bool]:
        """Return which actions the page offers."""
        may_change, is_protected = self.actor.may_change(job), services.is_protected(job)
        return {
            "can_change": may_change,
            "can_edit": may_change and job.status in (Job.Status.PENDING, Job.Status.PAUSED),
            "can_cancel": may_change and job.status in Job.ACTIVE and not is_protected,
            "can_delete": self.actor.may_delete(job) and not is_protected,
        }

    def _why(self, job: Job) -> dict[str, Any]:
        """Explain why the job ran or did not run at the moment in the query string."""
        text = self.request.GET.get("why", "").strip()
        if not text:
            return {}
        try:
            at = parse_moment(text, now=self.page.now, timezone=job.timezone, past=True)
        except PhraseError as error:
            return {"why_text": text, "why_problem": sentence(str(error))}
        match services.why(self.actor, job.public_id, at, self.page.now):
            case Ok(answer):
                return {"why_text": text, "why": answer}
            case Err() as problem:
                return {"why_text": text, "why_problem": problem.message}

    def _pause(self) -> dict[str, Any]:
        """Return the input of the pause form and its error, if the view `pause` redirected here."""
        typed = {name: self.request.GET.get(name, "") for name in PAUSE}
        try:
            read_until(typed["until"], self.page)
        except PhraseError as error:
            return {"pause": typed, "pause_problem": sentence(str(error))}
        return {}


def _narrowed(runs: Any, asked: dict[str, str]) -> Any:
    if asked["outcome"] in Execution.Status.values:
        runs = runs.filter(status=asked["outcome"])
    if asked["cause"] in Execution.Cause.values:
        runs = runs.filter(cause=asked["cause"])
    return runs


def policies(job: Job) -> list[str]:
    """Describe each policy in a sentence."""
    retry = (
        f"A failing run is tried {job.attempts} times, first again after {duration(job.backoff)}."
        if job.attempts > 1
        else "A failing run is not tried again."
    )
    overlap = {
        Job.Overlap.SKIP: "While a run is going, the next one is skipped.",
        Job.Overlap.QUEUE: "While a run is going, the next one waits for it.",
        Job.Overlap.ALLOW: "Runs may go side by side.",
    }
    catch_up = {
        Job.CatchUp.ONCE: "Missed runs are made up for by one run.",
        Job.CatchUp.ALL: "Every missed run is made up for.",
        Job.CatchUp.NONE: "Missed runs are left out.",
    }
    sentences = [
        retry,
        f"A run may take {duration(job.timeout)}.",
        overlap[Job.Overlap(job.overlap)],
        catch_up[Job.CatchUp(job.catch_up)],
    ]
    if job.pause_after_failures:
        sentences.append(f"After {job.pause_after_failures} failures in a row it pauses itself.")
    if job.at_most_once:
        sentences.append("A run whose worker died is not repeated: it ends as lost.")
    if ahead := still_ahead(job.skips.split(), clock.now()):
        sentences.append(f"It leaves out {', '.join(ahead)}.")
    if job.max_runs:
        sentences.append(f"It ends after {job.max_runs:,} scheduled runs; {job.slot_count:,} are done.")
    return sentences


def crontab_line(job: Job) -> str:
    if job.trigger_type != Job.TriggerType.CRON:
        return ""
    return f"CRON_TZ={job.timezone}\n{job.cron}  # {job.name}"


def _act(
    request: HttpRequest, job_id: str, verb: Callable[..., Result[Job]], words: str, **extra: Any
) -> HttpResponse:
    match verb(actor_of(request), job_id, **extra):
        case Ok(job):
            messages.success(request, words.format(name=job.name))
            return back(request, job_address(job))
        case Err() as problem:
            show_problem(request, problem)
            return back(request, reverse("schedules:job", args=[job_id]))


@require_POST
def pause(request: HttpRequest, job_id: str) -> HttpResponse:
    """Pause a job; if the end cannot be read, redirect back to the form with the input."""
    typed = {name: request.POST.get(name, "").strip() for name in PAUSE}
    try:
        until = read_until(typed["until"], page_of(request))
    except PhraseError:
        address = reverse("schedules:job", args=[job_id], query=typed)
        return HttpResponseRedirect(address, status=303)
    return _act(request, job_id, services.pause, "Paused {name}.", reason=typed["reason"], until=until)


def read_until(text: str, page: Page) -> datetime | None:
    """Read the end of a pause in the user's time zone; refuse one in the past."""
    if not text:
        return None
    until = parse_moment(text, now=page.now, timezone=page.zone, may_be_day=True)
    if until <= page.now:
        raise PhraseError(in_the_past(page.now, page.zone))
    return until


@require_POST
def resume(request: HttpRequest, job_id: str) -> HttpResponse:
    return _act(request, job_id, services.resume, "Resumed {name}.")


@require_POST
def cancel(request: HttpRequest, job_id: str) -> HttpResponse:
    return _act(request, job_id, services.cancel, "Cancelled {name}: it never runs again.")


@require_POST
def rotate_key(request: HttpRequest, job_id: str) -> HttpResponse:
    words = f"{{name}} has a new signing key; the old one stays valid for {OVERLAP.days} days."
    return _act(request, job_id, services.rotate_signing_key, words)


@require_POST
def delete(request: HttpRequest, job_id: str) -> HttpResponse:
    match services.delete(actor_of(request), job_id):
        case Ok(job):
            messages.success(request, f"Moved {job.name} to the trash.", extra_tags=f"undo {job.public_id}")
            return HttpResponseRedirect(reverse("schedules:jobs"), status=303)
        case Err() as problem:
            show_problem(request, problem)
            return back(request, reverse("schedules:jobs"))


@require_POST
def restore(request: HttpRequest) -> HttpResponse:
    """Restore jobs from the trash, for the undo button after a deletion and for the trash page."""
    results = [services.restore(actor_of(request), job_id) for job_id in request.POST.getlist("job")[:500]]
    restored = [result.value for result in results if isinstance(result, Ok)]
    for problem in results:
        if isinstance(problem, Err) and not restored:
            show_problem(request, problem)
        elif isinstance(problem, Err):
            # No 404 once some were restored.
            messages.error(request, problem_text(problem))
    if restored:
        names = restored[0].name if len(restored) == 1 else f"{len(restored)} jobs"
        messages.success(request, f"Restored {names}.")
    return back(request, job_address(restored[0]) if len(restored) == 1 else reverse("schedules:jobs"))


@require_POST
def run(request: HttpRequest, job_id: str) -> HttpResponse:
    """Start one run now; the schedule does not change."""
    match services.run_now(actor_of(request), job_id):
        case Ok(execution):
            messages.success(request, f"Started {execution.job_name}.", extra_tags=f"run {execution.pk}")
            return back(request, run_address(execution))
        case Err() as problem:
            show_problem(request, problem)
            return back(request, reverse("schedules:job", args=[job_id]))
