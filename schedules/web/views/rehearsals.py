"""The rehearsal page: which runs the coming days will bring if nothing changes."""

from datetime import datetime
from typing import Any

from django.views.generic import TemplateView

from schedules.result import Err, Ok, sentence
from schedules.services.job_list import JobQuery
from schedules.services.rehearsal.documents import (
    describe_crowds,
    describe_queue,
    describe_spend,
    describe_total,
    notes_on,
)
from schedules.services.rehearsal.rehearsal import Rehearsal, rehearse
from schedules.services.text_search import text_problem
from schedules.web.messages import message_of
from schedules.web.views.page import PageMixin, find_job
from schedules.when.periods import Period, ends_of, parse_period
from schedules.when.phrases import PhraseError
from schedules.when.triggers import TriggerError

FILTERS = ("from", "to", "tag", "job")
MAX_SHOWN = 200


class RehearsalPage(PageMixin, TemplateView):
    template_name = "schedules/rehearsal.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        filters = {name: self.request.GET.get(name, "").strip() for name in FILTERS}
        problems: dict[str, str] = {}
        start, end = self._period(filters, problems)
        if filters["tag"] and (problem := text_problem(filters["tag"])):
            problems["tag"] = f"{problem[:1].upper()}{problem[1:]}."
        job = find_job(self.actor, filters["job"]) if filters["job"] else None
        rehearsal: Rehearsal | None = None
        if not problems:
            query = JobQuery(tag=filters["tag"])
            match rehearse(self.actor, self.page.now, start=start, end=end, query=query, job=job):
                case Ok(value):
                    rehearsal = value
                case Err() as error:
                    reasons_by_field = {name: " ".join(reasons) for name, reasons in error.errors.items()}
                    problems |= reasons_by_field or {"to": message_of(error)}
        return super().get_context_data(
            filters=filters,
            problems=problems,
            job=job,
            is_filtered=any(filters.values()),
            **(_context(rehearsal) if rehearsal else {}),
            **kwargs,
        )

    def _period(
        self, filters: dict[str, str], problems: dict[str, str]
    ) -> tuple[datetime | None, datetime | None]:
        ends: dict[str, Period] = {}
        for name in ("from", "to"):
            if not filters[name]:
                continue
            try:
                ends[name] = parse_period(filters[name], now=self.page.now, timezone=self.page.zone)
            except (PhraseError, TriggerError) as error:
                problems[name] = sentence(str(error))
        return ends_of(ends.get("from"), ends.get("to"))


def _context(rehearsal: Rehearsal) -> dict[str, Any]:
    return {
        "rehearsal": rehearsal,
        "lines": [
            (line, describe_spend(line.spend) if line.spend and line.spend.runs else "")
            for line in rehearsal.lines[:MAX_SHOWN]
        ],
        "crowds": describe_crowds(rehearsal) if rehearsal.collisions.crowds else "",
        "queues": [(queue, describe_queue(queue)) for queue in rehearsal.collisions.queues],
        "spend": describe_total(rehearsal.spend) if rehearsal.spend else "",
        "notes": notes_on(rehearsal, MAX_SHOWN),
    }
