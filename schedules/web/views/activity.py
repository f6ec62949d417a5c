"""The activity page and the trash."""

from typing import Any

from django.views.generic import TemplateView

from schedules.models import Event, Job
from schedules.models.keysets import Segment
from schedules.templatetags.cronty_text import VERBS
from schedules.web.views.page import PageMixin
from schedules.web.views.paging import read_page

FILTERS = ("actor", "door", "verb", "job")
# Filters without an index: the page walks through the events.
LOOKUPS = {"actor": "actor__iexact", "door": "door", "verb": "verb"}


class ActivityPage(PageMixin, TemplateView):
    """The audit log, newest first."""

    template_name = "schedules/activity.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        asked = {name: self.request.GET.get(name, "").strip() for name in FILTERS}
        events = Event.objects.select_related("job")
        if not self.actor.sees_all:
            events = events.filter(owner=self.actor.user.pk)
        if asked["job"]:
            # By its key, because an index has the events of one job in order.
            events = events.filter(
                job=Job.objects.called(asked["job"]).values_list("pk", flat=True).first() or 0
            )
        narrowed = {lookup: asked[name] for name, lookup in LOOKUPS.items() if asked[name]}
        segment = Segment(events.filter(**narrowed), walked=events if narrowed else None)
        return super().get_context_data(
            listed=read_page([segment], self.request),
            asked=asked,
            is_filtered=any(asked.values()),
            doors=Event.Door.values,
            verbs=list(VERBS),
            **kwargs,
        )


class TrashPage(PageMixin, TemplateView):
    """Deleted jobs, which can be restored."""

    template_name = "schedules/trash.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        jobs = self.actor.trash().select_related("owner")
        listed = read_page([Segment(jobs, ("-deleted_at", "-pk"))], self.request)
        for job in listed.rows:
            job.can_change = self.actor.may_change(job)
        return super().get_context_data(listed=listed, **kwargs)
