"""What all pages share: the context of the header, base classes of views, redirects and messages."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, wraps
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.generic.base import ContextMixin, View

from schedules import __version__, clock
from schedules.models import Cluster, Event, Execution, Job, Profile
from schedules.models.counting import count_words
from schedules.result import Err, Kind, Ok, Result
from schedules.services import Actor, profile_of
from schedules.services.job_list import count_due
from schedules.services.job_overview import Alarm, read_alarm
from schedules.services.people.preferences import why_unalerted
from schedules.services.people.profiles import owner_names
from schedules.services.runs.approvals import count_waiting as count_waiting_approvals
from schedules.services.runs.prompts import count_waiting
from schedules.templatetags.cronty_times import use_clock
from schedules.web.messages import message_of

# The navigation counts waiting prompts up to this number.
MAX_WAITING = 99
# Any number with this many digits fits into a key column.
MAX_DIGITS = 18


@dataclass
class Page:
    """The data that the header and footer of every page show."""

    request: HttpRequest
    actor: Actor
    now: datetime

    version = __version__

    @cached_property
    def profile(self) -> Profile:
        return profile_of(self.actor.user)

    @property
    def zone(self) -> str:
        return self.profile.zone

    @property
    def unalerted(self) -> str:
        return why_unalerted(self.profile)

    @cached_property
    def cluster(self) -> Cluster | None:
        """A live cluster, or the one seen last if none is alive."""
        return self._live_cluster or Cluster.objects.order_by("-last_seen_at").first()

    @property
    def has_live_cluster(self) -> bool:
        return self._live_cluster is not None

    @cached_property
    def _live_cluster(self) -> Cluster | None:
        return Cluster.objects.fresh(self.now).first()

    @property
    def overdue_text(self) -> str:
        """Say how many jobs are overdue because no cluster is alive; empty if a cluster is alive or no job is due."""
        if self.has_live_cluster:
            return ""
        count = count_due(self.actor, self.now - timedelta(seconds=5))
        return f"{count_words(count)} job{' is' if count == 1 else 's are'} overdue." if count else ""

    @cached_property
    def waiting_text(self) -> str:
        """Return the count of waiting prompts and approvals for the navigation, or an empty text for none."""
        count = count_waiting(self.actor, MAX_WAITING) + count_waiting_approvals(self.actor)
        return count_words(count, MAX_WAITING) if count else ""

    @cached_property
    def alarm(self) -> Alarm:
        return read_alarm(self.actor, self.now, self.profile)


def page_of(request: HttpRequest) -> Page:
    page = Page(request, actor_of(request), clock.now())
    use_clock(page.profile.clock_hours)
    return page


def actor_of(request: HttpRequest) -> Actor:
    return Actor(cast(AbstractBaseUser, request.user), Event.Door.WEB)


class PageMixin(ContextMixin, View):
    """Base of all class views; adds `page` to the context."""

    @cached_property
    def page(self) -> Page:
        return page_of(self.request)

    @property
    def actor(self) -> Actor:
        return self.page.actor

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(page=self.page, **kwargs)


class FormPageMixin(PageMixin, ABC):
    """Base of pages with one form."""

    @abstractmethod
    def make_form(self, data: Any = None) -> Any:
        """Return the form, bound to `data` if there is any."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.setdefault("form", self.make_form())
        return super().get_context_data(**kwargs)

    def refused(self, form: Any) -> HttpResponse:
        """Show a form again with what is wrong with it."""
        context = self.get_context_data(form=form)
        return self.render_to_response(context, status=422)  # type: ignore[attr-defined,no-any-return]


def render_page(
    request: HttpRequest, name: str, context: dict[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    return render(request, name, {"page": page_of(request), **(context or {})}, status=status)


def find_job(actor: Actor, job_id: str) -> Job:
    """Return a job that this user may see, or raise Http404."""
    job = actor.job_with_owner(job_id)
    if job is None:
        raise Http404("job")
    return job


def owners_for(actor: Actor) -> list[str]:
    """Return the owners to offer in filters: all of them for staff, none for others, who see only their own rows."""
    return owner_names() if actor.sees_all else []


def points_to_trash(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Redirect a request for a job that has been moved to the trash, for example in another tab, to the trash."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, job_id: str, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, job_id=job_id, **kwargs)
        except Http404:
            is_partial = "HX-Request" in request.headers
            job = actor_of(request).trash().find(job_id)
            # An open page that refreshes itself stays as it is.
            if job is None or (is_partial and request.method != "POST"):
                raise
            messages.warning(request, f"{job.name} is in the trash. Restore it to use it again.")
            if is_partial:
                # The trash cannot replace a part of a page: on the 404 the script reloads, and the message is shown.
                raise
            return HttpResponseRedirect(reverse("schedules:trash"), status=303)

    return guarded


def back(request: HttpRequest, default: str) -> HttpResponseRedirect:
    """Redirect to the page that sent the form, if it is a page of this site."""
    return HttpResponseRedirect(own_address(request.POST.get("next", "")) or default, status=303)


def is_number(text: str) -> bool:
    """Return whether a text is a number that fits into a key column."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def own_address(text: str) -> str:
    """Return an address if it is a path on this site, else an empty text."""
    return text if url_has_allowed_host_and_scheme(text, None) and text.startswith("/") else ""


def job_address(job: Job) -> str:
    return reverse("schedules:job", args=[job.public_id])


def run_address(run: Execution) -> str:
    return reverse("schedules:run", args=[run.pk])


def finish(
    request: HttpRequest,
    result: Result[Any],
    message: str | Callable[[Any], str],
    default: str,
    *,
    tags: str = "",
) -> HttpResponseRedirect:
    """Show that an action succeeded, or why it was refused, and redirect.

    `message` and `tags` are format strings for the value of the result; a message may be a function of it.
    """
    match result:
        case Ok(value):
            text = message.format(value) if isinstance(message, str) else message(value)
            messages.success(request, text, extra_tags=tags.format(value))
        case Err() as problem:
            show_problem(request, problem)
    return back(request, default)


def show_problem(request: HttpRequest, problem: Err) -> None:
    """Show why a request was refused, or raise a 404 if the object was not found."""
    if problem.kind == Kind.NOT_FOUND:
        raise Http404(message_of(problem))
    messages.error(request, message_of(problem))
