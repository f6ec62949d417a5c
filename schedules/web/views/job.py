"""The page of one job, and the actions on it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Execution, Job, TriggerAddress
from schedules.result import Err, Ok, sentence
from schedules.services.files.sources import source_note
from schedules.services.job_overview import read_standing
from schedules.services.jobs.addresses import PingAddress, newest_pings, ping_address_of, trigger_of_job
from schedules.services.jobs.chains import chain_of
from schedules.services.jobs.forecasts import preview_of
from schedules.services.people.incidents import incidents_of_job
from schedules.services.run_list import RunQuery, newest_runs, read_runs
from schedules.services.runs import answers
from schedules.services.runs.question_words import describe_question
from schedules.services.runs.runner_list import runner_of_job
from schedules.tasks import registry
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.tasks.outbound.signing import OVERLAP
from schedules.web.messages import message_of
from schedules.web.snippets import ping_snippets
from schedules.web.views.activity import events_of_job
from schedules.web.views.job_facts import Health, policies, shown_values, upcoming_of
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import (
    Page,
)
from schedules.web.views.proposals import shown_proposal
from schedules.when.phrases import PhraseError, parse_moment, parse_past
from schedules.when.zones import in_the_past

TABS = {
    "runs": "Runs",
    "history": "History",
    "why": "Why?",
    "agent": "Tell your agent",
    "trigger": "Trigger address",
}
PING_TAB = {"ping": "Ping address"}
BARS = 60
RUNS = 20
PAUSE = ("reason", "until")
NEW_ADDRESS = "cronty_new_trigger"


class JobPage(LivePageMixin, TemplateView):
    template_name = "schedules/job.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, job_id = self.page.now, kwargs["job_id"]
        job = read_standing(self.actor, job_id, now)
        if job is None:
            raise Http404("job")
        last_runs = newest_runs(job, BARS)
        preview = preview_of(job, now)
        upcoming = upcoming_of(job, preview.next_runs, now)
        address = ping_address_of(job)
        # A job that runs elsewhere is started by pings alone, so it has no trigger address.
        tabs = {key: TABS[key] for key in TABS if key != "trigger"} | PING_TAB if address else TABS
        tab = self._tab(tabs, address)
        return super().get_context_data(
            job=job,
            preview=preview,
            upcoming=upcoming,
            next_run=next((each for each in upcoming if not each.is_skipped), None),
            chain=chain_of(self.actor, job, now),
            is_overdue=job.status == Job.Status.PENDING and bool(job.next_run_at and job.next_run_at < now),
            health=Health(last_runs[::-1]),
            is_task_missing=registry.get(job.task) is None,
            proposed=shown_proposal(self.page, job),
            values=shown_values(job),
            policies=policies(job),
            runner=runner_of_job(job, now),
            managed_by=source_note(job),
            **self._rights(job),
            signing_keys=services.signing_keys_of(self.actor, job, now),
            overlap_days=OVERLAP.days,
            tabs=tabs,
            tab=tab,
            **(self._pings(job, address) if address and tab == "ping" else self._tab_content(tab, job)),
            **question_context(job),
            **self._pause(),
            **kwargs,
        )

    def _tab(self, tabs: Mapping[str, str], address: PingAddress | None) -> str:
        tab = self.request.GET.get("tab", "why" if self.request.GET.get("why") else "")
        if tab in tabs:
            return tab
        # Until the first ping arrives, open the tab with the ping address, which the owner needs to set it up.
        return "ping" if address and not address.heartbeat.pings and not tab else "runs"

    def _pings(self, job: Job, address: PingAddress) -> dict[str, Any]:
        is_owner = job.owner_id == self.actor.user.pk
        return {
            "address": address,
            "shows_key": is_owner,
            "pings": newest_pings(address.heartbeat),
            "snippets": ping_snippets(address.url, address.named_url if is_owner else ""),
        }

    def _tab_content(self, tab: str, job: Job) -> dict[str, Any]:
        """Return what the chosen tab shows."""
        match tab:
            case "history":
                return {"events": events_of_job(self.page, job), "incidents": incidents_of_job(job)}
            case "why":
                return self._why(job)
            case "trigger":
                return self._trigger(job)
            case "agent":
                return {"crontab": crontab_line(job)}
            case _:
                return self._runs(job)

    def _trigger(self, job: Job) -> dict[str, Any]:
        return {
            "trigger_address": trigger_of_job(job),
            "new_address": take_new_address(self.request, job.public_id),
            "schemes": TriggerAddress.Scheme.choices,
            "may_open_trigger": job.owner_id == self.actor.user.pk and job.task != HEARTBEAT,
        }

    def _runs(self, job: Job) -> dict[str, Any]:
        filters = {name: self.request.GET.get(name, "") for name in ("outcome", "cause")}
        query = RunQuery(job=job, status=filters["outcome"], cause=filters["cause"])
        return {
            "listed": read_runs(self.actor, query, self.request.GET, RUNS),
            "filters": filters,
            "outcomes": Execution.Status.values,
            "causes": Execution.Cause.values,
        }

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        response = super().render_to_response(context, **kwargs)
        if context["signing_keys"] or "address" in context or context.get("new_address"):
            response["Cache-Control"] = "no-store"
        return response

    def _rights(self, job: Job) -> dict[str, bool]:
        """Return which actions the page offers."""
        may_change, is_protected = self.actor.may_change(job), services.is_protected(job)
        is_armed = job.status in (Job.Status.PENDING, Job.Status.PAUSED)
        return {
            "can_change": may_change,
            "can_run": may_change
            and not job.proposed_at
            and job.status != Job.Status.CANCELLED
            and job.task != HEARTBEAT,
            "can_skip": may_change and is_armed and job.trigger_type != Job.TriggerType.ONCE,
            "can_edit": may_change and is_armed and not is_protected,
            "can_cancel": may_change and job.status in Job.ACTIVE and not is_protected,
            "can_delete": self.actor.may_delete(job) and not is_protected,
        }

    def _why(self, job: Job) -> dict[str, Any]:
        """Explain why the job ran or did not run at the moment in the query string."""
        text = self.request.GET.get("why", "").strip()
        if not text:
            return {}
        try:
            at = parse_past(text, now=self.page.now, timezone=job.timezone)
        except PhraseError as error:
            return {"why_text": text, "why_problem": sentence(str(error))}
        match services.why(self.actor, job.public_id, at, self.page.now):
            case Ok(answer):
                return {"why_text": text, "why": answer}
            case Err() as problem:
                return {"why_text": text, "why_problem": message_of(problem)}

    def _pause(self) -> dict[str, Any]:
        """Return the input of the pause form, if it was refused by `pause`."""
        typed = {name: self.request.GET.get(name, "") for name in PAUSE}
        try:
            read_until(typed["until"], self.page)
        except PhraseError as error:
            return {"pause": typed, "pause_problem": sentence(str(error))}
        return {}


def read_until(text: str, page: Page) -> datetime | None:
    """Parse the end of a pause in the user's time zone; raise PhraseError for one in the past."""
    if not text:
        return None
    until = parse_moment(text, now=page.now, timezone=page.zone, may_be_day=True)
    if until <= page.now:
        raise PhraseError(in_the_past(page.now, page.zone))
    return until


def crontab_line(job: Job) -> str:
    if job.trigger_type != Job.TriggerType.CRON:
        return ""
    delay = f"RANDOM_DELAY={ceil(job.spread / timedelta(minutes=1))}\n" if job.spread else ""
    return f"CRON_TZ={job.timezone}\n{delay}{job.cron}  # {job.name}"


def question_context(job: Job) -> dict[str, Any]:
    """Return the template context for the last question of a job."""
    question = answers.latest_question(job) if job.task == "notify" else None
    if question is None:
        return {}
    return {
        "question": question,
        "question_words": describe_question(question, job),
        "can_undo_answer": bool(question.answers) and question.answers[-1]["answer"] != answers.UNDO,
        "can_snooze": question.is_pending and job.status not in (job.Status.PAUSED, job.Status.CANCELLED),
    }


def take_new_address(request: HttpRequest, job_id: str) -> str:
    """Return and forget the address that was just created for a job."""
    stored = request.session.get(NEW_ADDRESS)
    if not isinstance(stored, dict) or stored.get("job") != job_id:
        return ""
    del request.session[NEW_ADDRESS]
    return str(stored["url"])
