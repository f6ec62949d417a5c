"""The URLs of the pages; include them with `path("", include("schedules.urls"))`."""

from collections.abc import Callable, Sequence
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, include, path

from schedules.api.urls import api_document
from schedules.web import health
from schedules.web.metrics import metrics
from schedules.web.middleware import keeps_draft, requires_login
from schedules.web.pings.endpoint import ping
from schedules.web.views import (
    account,
    activity,
    agents,
    answers,
    approvals,
    calendar,
    calendars,
    channels,
    connect,
    editing,
    event_subscriptions,
    inbox,
    install,
    job,
    jobs,
    live,
    notifications,
    palette,
    pause_all,
    proposals,
    quick,
    reference,
    runs,
    secrets,
    system,
    triggers,
    undo,
    welcome,
)
from schedules.web.views.page import points_to_trash

app_name = "schedules"


def page(
    route: str, view: Callable[..., HttpResponseBase], options: dict[str, Any] | None = None, *, name: str
) -> URLPattern:
    """Return a URL pattern that requires a login, also in a project without our middleware."""
    if "<str:job_id>" in route:
        view = points_to_trash(view)
    return path(route, requires_login(view), options, name=name)


def form(
    route: str, view: Callable[..., HttpResponseBase], *, name: str, typed: Sequence[str] = ()
) -> URLPattern:
    """Return the pattern of a form that is kept when it is sent without a login."""
    return page(route, keeps_draft(view, typed), name=name)


urlpatterns = [
    page("", jobs.JobsPage.as_view(), name="jobs"),
    form("jobs/new/", editing.NewJobPage.as_view(), name="new"),
    path("jobs/preview/", editing.preview, name="preview"),
    path("jobs/message/", editing.message_preview, name="message-preview"),
    page("jobs/zones/", editing.zones, name="zones"),
    page("jobs/quick/", quick.quick, name="quick"),
    page("palette/", palette.palette, name="palette"),
    page("jobs/bulk/", jobs.bulk, name="bulk"),
    page("jobs/pause-all/", pause_all.PauseAllPage.as_view(), name="pause-all"),
    page("jobs/confirm/", proposals.confirm, name="confirm"),
    page("jobs/restore/", job.restore, name="restore"),
    page("jobs/<str:job_id>/", job.JobPage.as_view(), name="job"),
    form("jobs/<str:job_id>/edit/", editing.EditJobPage.as_view(), name="edit"),
    page("jobs/<str:job_id>/run/", job.run, name="run-now"),
    form("jobs/<str:job_id>/pause/", job.pause, name="pause", typed=job.PAUSE),
    page("jobs/<str:job_id>/skip/", job.skip, name="skip"),
    page("jobs/<str:job_id>/resume/", job.resume, name="resume"),
    page("jobs/<str:job_id>/cancel/", job.cancel, name="cancel"),
    page("jobs/<str:job_id>/answer/", answers.answer_job, name="answer-job"),
    page("jobs/<str:job_id>/trigger/", triggers.open_address, name="open-trigger"),
    page("jobs/<str:job_id>/trigger/close/", triggers.close_address, name="close-trigger"),
    page("jobs/<str:job_id>/rotate-key/", job.rotate_key, name="rotate-key"),
    page("jobs/<str:job_id>/delete/", job.delete, name="delete"),
    page("runs/", runs.RunsPage.as_view(), name="runs"),
    page("runs/export.csv", runs.export, {"kind": "csv"}, name="runs-csv"),
    page("runs/export.json", runs.export, {"kind": "json"}, name="runs-json"),
    page("runs/<int:run_id>/", runs.RunPage.as_view(), name="run"),
    page("runs/<int:run_id>/output.txt", runs.output, name="run-output"),
    page("runs/<int:run_id>/console/", runs.console, name="run-console"),
    page("runs/<int:run_id>/stop/", runs.stop, name="stop-run"),
    page("calendar/", calendar.CalendarPage.as_view(), name="calendar"),
    page("calendar/address/", calendar.change_address, name="calendar-address"),
    path("calendar/<str:key>.ics", calendar.feed, name="calendar-feed"),
    page("inbox/", inbox.InboxPage.as_view(), name="inbox"),
    page("inbox/dismiss/", inbox.dismiss_several, name="dismiss-several"),
    form("inbox/<int:run_id>/answer/", inbox.answer, name="answer"),
    page("inbox/approvals/<int:approval_id>/answer/", approvals.answer, name="answer-approval"),
    page("inbox/<int:run_id>/dismiss/", inbox.dismiss, name="dismiss"),
    page("inbox/<int:run_id>/release/", inbox.release, name="release"),
    form("notifications/", notifications.NotificationsPage.as_view(), name="notifications"),
    page("channels/new/", channels.page, name="channel"),
    page("channels/<int:channel_id>/test/", channels.test, name="test-channel"),
    page("channels/<int:channel_id>/confirm/", channels.confirm, name="confirm-channel"),
    page("channels/<int:channel_id>/rename/", channels.rename, name="rename-channel"),
    page("channels/<int:channel_id>/use/", channels.use_for, name="use-channel"),
    page("channels/<int:channel_id>/delete/", channels.delete, name="delete-channel"),
    page("events/", event_subscriptions.EventsPage.as_view(), name="events"),
    form("events/new/", event_subscriptions.form_page, name="new-event-subscription"),
    page(
        "events/<str:subscription_id>/",
        event_subscriptions.EventSubscriptionPage.as_view(),
        name="event-subscription",
    ),
    form("events/<str:subscription_id>/edit/", event_subscriptions.form_page, name="edit-event-subscription"),
    page("events/<str:subscription_id>/test/", event_subscriptions.test, name="test-event-subscription"),
    page(
        "events/<str:subscription_id>/switch/", event_subscriptions.switch, name="switch-event-subscription"
    ),
    page(
        "events/<str:subscription_id>/rotate/", event_subscriptions.rotate, name="rotate-event-subscription"
    ),
    page(
        "events/<str:subscription_id>/delete/", event_subscriptions.delete, name="delete-event-subscription"
    ),
    page("events/<str:subscription_id>/<int:delivery_id>/", event_subscriptions.send_again, name="redeliver"),
    page("notifications/qr/", notifications.qr, name="topic-qr"),
    form("connect/", connect.ConnectPage.as_view(), name="connect"),
    page("connect/cronty.mcpb", connect.bundle, name="bundle"),
    page("connect/<int:token_id>/", connect.first_call, name="first-call"),
    page("connect/<int:token_id>/rotate/", connect.rotate, name="rotate"),
    page("connect/<int:token_id>/revoke/", connect.revoke, name="revoke"),
    page("agents/", agents.AgentsPage.as_view(), name="agents"),
    page("agents/switch/", agents.switch, name="switch-agents"),
    page("activity/", activity.ActivityPage.as_view(), name="activity"),
    page("activity/undo/", undo.UndoPage.as_view(), name="undo"),
    page("trash/", activity.TrashPage.as_view(), name="trash"),
    page("system/", system.SystemPage.as_view(), name="system"),
    form("welcome/", welcome.WelcomePage.as_view(), name="welcome"),
    form("settings/", account.SettingsPage.as_view(), name="settings"),
    form("settings/secrets/", secrets.page, name="secrets"),
    page("settings/secrets/<int:secret_id>/delete/", secrets.delete, name="delete-secret"),
    page("settings/ping-key/", account.ping_key, name="ping-key"),
    form("settings/calendars/", calendars.CalendarsPage.as_view(), name="calendars"),
    page("settings/calendars/<int:calendar_id>/delete/", calendars.delete, name="delete-calendar"),
    page("settings/end-access/", account.end_access, name="end-access"),
    page("live/", live.version, name="live"),
    page("live/icon.svg", live.icon, name="icon"),
    page("api/", reference.page, {"read_document": api_document}, name="api-reference"),
    path("api/v1/", include("schedules.api.urls")),
    path("manifest.webmanifest", install.manifest, name="manifest"),
    path("worker.js", install.worker, name="worker"),
    path("offline/", install.offline, name="offline"),
    path("theme/", account.theme, name="theme"),
    path("trigger/<str:key>", triggers.called, name="trigger"),
    path("ping/<path:place>", ping, name="ping"),
    path("a/<str:token>/", answers.page, name="answer-link"),
    path("agents/stop/<str:token>/", agents.stop_link, name="stop-link"),
    path("approve/<str:token>/", approvals.link, name="approval-link"),
    path("healthz", health.alive, name="alive"),
    path("readyz", health.ready, name="ready"),
    path("metrics", metrics, name="metrics"),
]
