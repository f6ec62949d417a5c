"""The activity page and the trash."""

from typing import Any

from django.views.generic import TemplateView

from schedules.models import Event
from schedules.templatetags.cronty_text import VERBS
from schedules.web.views.page import PageMixin, sliced

FILTERS = ("actor", "door", "verb", "job")


class ActivityPage(PageMixin, TemplateView):
    """The audit log, newest first."""

    template_name = "schedules/activity.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        asked = {name: self.request.GET.get(name, "").strip() for name in FILTERS}
        events = Event.objects.select_related("job")
        if not self.actor.sees_all:
            events = events.filter(owner=self.actor.user.pk)
        for name in ("actor", "door", "verb"):
            if asked[name]:
                events = events.filter(**{name: asked[name]})
        if asked["job"]:
            events = events.filter(job__public_id=asked["job"])
        return super().get_context_data(
            listed=sliced(events, self.request),
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
        jobs = self.actor.trash().select_related("owner").order_by("-deleted_at", "-pk")
        listed = sliced(jobs, self.request)
        for job in listed.rows:
            job.can_change = self.actor.may_change(job)
        return super().get_context_data(listed=listed, **kwargs)
