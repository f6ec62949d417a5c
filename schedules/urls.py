"""The URLs of the pages; include them with `path("", include("schedules.urls"))`."""

from collections.abc import Callable
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, include, path

from schedules.api.urls import api_document
from schedules.web import health
from schedules.web.metrics import metrics
from schedules.web.middleware import requires_login
from schedules.web.pings.endpoint import ping
from schedules.web.views import (
    account,
    activity,
    calendar,
    connect,
    editing,
    inbox,
    job,
    job_actions,
    jobs,
    links,
    live,
    notifications,
    proposals,
    quick,
    reference,
    run,
    runs,
    stored,
    system,
    triggers,
    webhooks,
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


urlpatterns = [
    page("", jobs.JobsPage.as_view(), name="jobs"),
    page("jobs/new/", editing.NewJobPage.as_view(), name="new"),
    path("jobs/preview/", editing.preview, name="preview"),
    page("jobs/zones/", editing.zones, name="zones"),
    page("jobs/quick/", quick.quick, name="quick"),
    page("palette/", quick.palette, name="palette"),
    page("jobs/bulk/", jobs.bulk, name="bulk"),
    page("jobs/pause-all/", job_actions.PauseAllPage.as_view(), name="pause-all"),
    page("jobs/confirm/", proposals.confirm, name="confirm"),
    page("jobs/restore/", job_actions.restore, name="restore"),
    page("jobs/<str:job_id>/", job.JobPage.as_view(), name="job"),
    page("jobs/<str:job_id>/edit/", editing.EditJobPage.as_view(), name="edit"),
    page("jobs/<str:job_id>/run/", job_actions.run, name="run-now"),
    page("jobs/<str:job_id>/pause/", job_actions.pause, name="pause"),
    page("jobs/<str:job_id>/skip/", job_actions.skip, name="skip"),
    page("jobs/<str:job_id>/resume/", job_actions.resume, name="resume"),
    page("jobs/<str:job_id>/cancel/", job_actions.cancel, name="cancel"),
    page("jobs/<str:job_id>/answer/", job_actions.answer, name="answer-job"),
    page("jobs/<str:job_id>/trigger/", job_actions.open_address, name="open-trigger"),
    page("jobs/<str:job_id>/trigger/close/", job_actions.close_address, name="close-trigger"),
    page("jobs/<str:job_id>/rotate-key/", job_actions.rotate_key, name="rotate-key"),
    page("jobs/<str:job_id>/delete/", job_actions.delete, name="delete"),
    page("runs/", runs.RunsPage.as_view(), name="runs"),
    page("runs/export.csv", runs.export, name="runs-csv"),
    page("runs/<int:run_id>/", run.RunPage.as_view(), name="run"),
    page("runs/<int:run_id>/output.txt", run.output, name="run-output"),
    page("runs/<int:run_id>/console/", run.console, name="run-console"),
    page("runs/<int:run_id>/stop/", run.stop, name="stop-run"),
    page("calendar/", calendar.CalendarPage.as_view(), name="calendar"),
    page("calendar/address/", calendar.change_address, name="calendar-address"),
    path("calendar/<str:key>.ics", calendar.feed, name="calendar-feed"),
    page("inbox/", inbox.InboxPage.as_view(), name="inbox"),
    page("inbox/dismiss/", inbox.dismiss_several, name="dismiss-several"),
    page("inbox/<int:run_id>/answer/", inbox.answer, name="answer"),
    page("inbox/approvals/<int:approval_id>/answer/", inbox.answer_agent, name="answer-approval"),
    page("inbox/<int:run_id>/dismiss/", inbox.dismiss, name="dismiss"),
    page("inbox/<int:run_id>/release/", inbox.release, name="release"),
    page("notifications/", notifications.NotificationsPage.as_view(), name="notifications"),
    page("channels/new/", stored.channel, name="channel"),
    page("channels/<int:channel_id>/test/", stored.test_channel, name="test-channel"),
    *(
        page(
            f"channels/<int:channel_id>/{verb}/",
            stored.change_channel,
            {"verb": verb},
            name=f"{verb}-channel",
        )
        for verb in ("confirm", "rename", "use", "delete")
    ),
    page("channels/<int:channel_id>/", webhooks.WebhookPage.as_view(), name="webhook"),
    page("channels/<int:channel_id>/<int:delivery_id>/", webhooks.send_again, name="redeliver"),
    *(
        page(
            f"channels/<int:channel_id>/{verb}/",
            webhooks.change_webhook,
            {"verb": verb},
            name=f"{verb}-webhook",
        )
        for verb in ("switch", "rotate")
    ),
    page("notifications/qr/", notifications.qr, name="topic-qr"),
    page("connect/", connect.ConnectPage.as_view(), name="connect"),
    page("connect/cronty.mcpb", connect.bundle, name="bundle"),
    page("connect/<int:token_id>/", connect.first_call, name="first-call"),
    page("connect/<int:token_id>/rotate/", connect.rotate, name="rotate"),
    page("connect/<int:token_id>/revoke/", connect.revoke, name="revoke"),
    page("agents/", inbox.AgentsPage.as_view(), name="agents"),
    page("agents/switch/", inbox.switch_agents, name="switch-agents"),
    page("activity/", activity.ActivityPage.as_view(), name="activity"),
    page("activity/undo/", activity.UndoPage.as_view(), name="undo"),
    page("trash/", activity.TrashPage.as_view(), name="trash"),
    page("system/", system.SystemPage.as_view(), name="system"),
    page("welcome/", account.WelcomePage.as_view(), name="welcome"),
    page("settings/", account.SettingsPage.as_view(), name="settings"),
    page("settings/secrets/", stored.secrets, name="secrets"),
    page("settings/secrets/<int:secret_id>/delete/", stored.forget_secret, name="delete-secret"),
    page("settings/ping-key/", account.ping_key, name="ping-key"),
    page("settings/calendars/", stored.CalendarsPage.as_view(), name="calendars"),
    page("settings/calendars/<int:calendar_id>/delete/", stored.forget_calendar, name="delete-calendar"),
    page("settings/end-access/", account.end_access, name="end-access"),
    page("live/", live.version, name="live"),
    page("api/", reference.page, {"read_document": api_document}, name="api-reference"),
    path("api/v1/", include("schedules.api.urls")),
    path("manifest.webmanifest", live.manifest, name="manifest"),
    path("worker.js", live.worker, name="worker"),
    path("offline/", live.offline, name="offline"),
    path("theme/", account.theme, name="theme"),
    path("trigger/<str:key>", triggers.called, name="trigger"),
    path("ping/<path:place>", ping, name="ping"),
    path("a/<str:token>/", links.answer, name="answer-link"),
    path("agents/stop/<str:token>/", links.stop, name="stop-link"),
    path("approve/<str:token>/", links.approval, name="approval-link"),
    path("healthz", health.alive, name="alive"),
    path("readyz", health.ready, name="ready"),
    path("metrics", metrics, name="metrics"),
]
