"""The list of runs, the page of one run, and the exports."""

import json
from collections import Counter
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Execution, Job
from schedules.models.executions import ExecutionQuerySet
from schedules.models.keysets import WALKED, Segment
from schedules.result import Err, Ok, sentence
from schedules.services.runs.explanations import explain
from schedules.services.runs.outputs import output_since
from schedules.tasks import registry
from schedules.web import drafts
from schedules.web.exports import MOST_ROWS, csv_chunks, in_threads, json_chunks
from schedules.web.views.job_facts import shown_values
from schedules.web.views.live import LivePageMixin
from schedules.web.views.owners import owner_called, owners_for
from schedules.web.views.page import Page, actor_of, page_of, render_page, show_problem
from schedules.web.views.paging import read_page
from schedules.web.views.run_facts import attempts_of, response_of
from schedules.when.phrases import PhraseError, parse_moment

FILTERS = ("status", "job", "cause", "q", "since", "until", "owner")
SHOWN_OUTPUT = 20_000
# The newest runs, which the chips count.
COUNTED_RUNS = 1_000


class RunsPage(LivePageMixin, TemplateView):
    """All runs, newest first."""

    template_name = "schedules/runs.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        asked = asked_of(self.request)
        scope, problems = within(self.page, asked)
        counts = count_by_status(scope, asked["status"])
        scope, found = with_status(scope, asked)
        found = matching(found, asked)
        rows = found.select_related("job").defer("traceback", "result")
        walked = scope if found is not scope else None
        listed = read_page([Segment(rows, ("-scheduled_for", "-pk"), walked)], self.request)
        return super().get_context_data(
            asked=asked,
            problems=problems,
            listed=listed,
            causes=Execution.Cause.values,
            is_filtered=any(asked.values()),
            owners=owners_for(self.actor),
            counts=counts,
            # A search and a cause have no index, so the chips do not count them.
            is_counted=not (asked["q"] or asked["cause"]),
            counted_runs=COUNTED_RUNS,
            job_name=self._job_name(asked["job"]),
            query=self.request.GET.urlencode(),
            most_exported=MOST_ROWS,
            **kwargs,
        )

    def _job_name(self, job_id: str) -> str:
        job = self.actor.jobs().find(job_id) if job_id else None
        return job.name if job else job_id


def count_by_status(runs: ExecutionQuerySet, asked: str) -> dict[str, int]:
    """Count the newest runs by status, in the order of the statuses; the status that is asked for is always there."""
    newest = runs.order_by("-scheduled_for", "-pk").values_list("status", flat=True)[:COUNTED_RUNS]
    found = Counter(newest)
    return {name: found[name] for name in Execution.Status.values if found[name] or name == asked}


def asked_of(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "").strip() for name in FILTERS}


def within(page: Page, asked: dict[str, str]) -> tuple[ExecutionQuerySet, dict[str, str]]:
    """Return the runs of the asked owner, job and time, which indexes find, and an error for each moment that is not one."""
    runs, problems = page.actor.executions(), {}
    if asked["owner"]:
        runs = runs.filter(owner=owner_called(asked["owner"]))
    if asked["job"]:
        # By its key, because an index has the runs of one job in order.
        runs = runs.filter(job=Job.objects.called(asked["job"]).values_list("pk", flat=True).first() or 0)
    for name, bound in (("since", "scheduled_for__gte"), ("until", "scheduled_for__lt")):
        if asked[name]:
            try:
                moment = parse_moment(asked[name], now=page.now, timezone=page.zone, past=True)
                runs = runs.filter(**{bound: moment})
            except PhraseError as error:
                problems[name] = sentence(str(error))
    return runs, problems


def with_status(
    runs: ExecutionQuerySet, asked: dict[str, str]
) -> tuple[ExecutionQuerySet, ExecutionQuerySet]:
    """Return the runs to look through, and those of them with the asked status; the same if an index finds these."""
    status = asked["status"]
    if status in Execution.LIVE:
        # They may be as old as the history, but there are never many. By keys: in the order of the list, the database
        # would look through all runs for them.
        live = runs.live().filter(status=status).order_by().values_list("pk", flat=True)
        found = runs.filter(pk__in=list(live[:WALKED]))
        return found, found
    if status not in Execution.FINAL:
        return runs, runs
    # The runs of one job have an index of their own.
    scope = runs if asked["job"] else runs.indexed_for(status)
    return scope, scope if scope is not runs else runs.filter(status=status)


def matching(runs: ExecutionQuerySet, asked: dict[str, str]) -> ExecutionQuerySet:
    """Apply the other filters of the query string; return the same object if there are none."""
    if asked["cause"] in Execution.Cause.values:
        runs = runs.filter(cause=asked["cause"])
    if asked["q"]:
        wanted = Q(job_name__icontains=asked["q"]) | Q(error__icontains=asked["q"])
        runs = runs.filter(wanted | Q(reason__icontains=asked["q"]))
    return runs


class RunPage(LivePageMixin, TemplateView):
    template_name = "schedules/run.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        run = find_run(self.request, kwargs["run_id"])
        heading, output = response_of(run)
        console = console_of(run)
        zone = run.job.timezone if run.job else self.page.zone
        job = run.job if run.job and run.job.deleted_at is None else None
        can_change = job is not None and self.actor.may_change(job)
        return super().get_context_data(
            run=run,
            job=job,
            can_change=can_change,
            **self._answer(run, can_change=can_change),
            zone=zone,
            explanation=explain(run, zone),
            attempts=attempts_of(run),
            heading=heading,
            output="" if console["console"].text else output[:SHOWN_OUTPUT],
            is_cut=len(output) > SHOWN_OUTPUT,
            **console,
            receipt=receipt(run),
            values=shown_values(job) if job else [],
            **kwargs,
        )

    def _answer(self, run: Execution, *, can_change: bool) -> dict[str, Any]:
        """Return what the form for the answer to a prompt needs, and an answer that was typed before a log-in."""
        can_answer = can_change and run.status == Execution.Status.WAITING
        typed = (drafts.take(self.request) or QueryDict()).get("answer", "")
        return {
            "can_answer": can_answer,
            "is_held": run.is_held_at(self.page.now),
            "typed" if can_answer else "unsent": typed,
            "most_typed": settings.CRONTY_MAX_JSON_BYTES,
        }


def find_run(request: HttpRequest, run_id: int) -> Execution:
    """Return a run that this user may see, or raise a 404."""
    # Larger numbers do not fit into the column and would cause an error.
    run = None
    if run_id < 2**63:
        run = actor_of(request).executions().select_related("job", "cluster").filter(pk=run_id).first()
    if run is None:
        raise Http404("run")
    return run


def console_of(run: Execution) -> dict[str, Any]:
    """Return what a command has printed so far, and whether more may follow."""
    console = output_since(run)
    task = registry.get(run.task)
    is_running = run.status == Execution.Status.RUNNING
    return {"console": console, "is_following": is_running and task is not None and task.is_command}


@require_safe
def console(request: HttpRequest, run_id: int) -> HttpResponse:
    """Render the output of a command, which the page of its run asks for while it runs."""
    run = find_run(request, run_id)
    can_change = run.job is not None and actor_of(request).may_change(run.job)
    context = {"run": run, "can_change": can_change, **console_of(run)}
    return render_page(request, "schedules/parts/run_output.html", context)


@require_POST
def stop(request: HttpRequest, run_id: int) -> HttpResponse:
    """Stop a command that runs."""
    find_run(request, run_id)
    match services.stop_run(actor_of(request), run_id):
        case Ok():
            messages.success(request, "Stopping the command and its child processes.")
        case Err() as problem:
            show_problem(request, problem)
    return HttpResponseRedirect(reverse("schedules:run", args=[run_id]), status=303)


def result_text(result: Any) -> str:
    if result is None:
        return ""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2)


def receipt(run: Execution) -> str:
    """Return where a notification arrived, according to the server's answer, or an empty text."""
    if not isinstance(run.result, dict) or run.status != Execution.Status.SUCCEEDED or run.task != "notify":
        return ""
    return f"{run.result.get('server')} · {run.result.get('topic')}"


@require_safe
def output(request: HttpRequest, run_id: int) -> HttpResponse:
    """Return the whole output as a file."""
    run = find_run(request, run_id)
    parts = [run.error, run.traceback, output_since(run).text, result_text(run.result)]
    response = HttpResponse("\n\n".join(filter(None, parts)), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}.txt"'
    return response


@require_safe
def export(request: HttpRequest, kind: str) -> HttpResponseBase:
    """Return the runs that match the query string, as CSV or JSON."""
    asked = asked_of(request)
    scope, problems = within(page_of(request), asked)
    if problems:
        words = "\n".join(f"{name}: {problem}" for name, problem in problems.items())
        return HttpResponseBadRequest(f"{words}\n", content_type="text/plain; charset=utf-8")
    found = matching(with_status(scope, asked)[1], asked)
    chunks = csv_chunks(found) if kind == "csv" else json_chunks(found)
    # Django would collect a synchronous iterator in memory under ASGI, and an asynchronous one under WSGI.
    content = in_threads(chunks) if isinstance(request, ASGIRequest) else chunks
    content_type = "text/csv; charset=utf-8" if kind == "csv" else "application/json"
    response = StreamingHttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="runs.{kind}"'
    return response
