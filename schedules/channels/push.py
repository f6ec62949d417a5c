"""The push channels: ntfy, Gotify and Pushover."""

from django.conf import settings

from schedules import limits
from schedules.channels.kinds import ChannelKind, Field, Request, Values, join_url, must_match, server_problem
from schedules.channels.message import Message, fit, text_with_links
from schedules.channels.ntfy import ntfy_fields

PUSHOVER_SERVER = "https://api.pushover.net"
PUSHOVER_UNITS = 1024
PUSHOVER_TITLE_UNITS = 250
PUSHOVER_URL_UNITS = 512
GOTIFY_UNITS = 16_000
# Cronty's priorities on each service's scale. Pushover's 2 is unused: it repeats until somebody confirms it.
GOTIFY_PRIORITIES = {1: 0, 2: 2, 3: 5, 4: 7, 5: 10}
PUSHOVER_PRIORITIES = {1: -2, 2: -1, 3: 0, 4: 1, 5: 1}


def _ntfy_server_problem(url: str) -> str | None:
    return None if _is_default_server(url) else server_problem(url)


def _is_default_server(url: str) -> bool:
    """Return whether this is the operator's own server, which is often on the local network."""
    return url.rstrip("/") == settings.NTFY_URL.rstrip("/")


def _ntfy(values: Values, message: Message) -> Request:
    server = values.get("server") or settings.NTFY_URL
    trusted = _is_default_server(server)
    token = values.get("token") or (settings.NTFY_TOKEN if trusted else "")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    body = ntfy_fields(values["topic"], message)
    setting = "NTFY_URL" if trusted else "the server of the channel"
    return Request(f"{server.rstrip('/')}/", body, headers, trusted=trusted, setting=setting)


def _gotify(values: Values, message: Message) -> Request:
    click = {"client::notification": {"click": {"url": message.click}}} if message.click else {}
    body = {
        "title": message.title,
        "message": text_with_links(message, GOTIFY_UNITS),
        "priority": GOTIFY_PRIORITIES[message.priority],
        "extras": {"client::display": {"contentType": "text/plain"}, **click},
    }
    if not message.title:
        del body["title"]
    return Request(join_url(values["server"], "/message"), body, {"x-gotify-key": values["token"]})


def _pushover(values: Values, message: Message) -> Request:
    body = {
        "token": values["token"],
        "user": values["user"],
        "message": fit(message.text, PUSHOVER_UNITS),
        "priority": PUSHOVER_PRIORITIES[message.priority],
    }
    if message.title:
        body["title"] = fit(message.title, PUSHOVER_TITLE_UNITS)
    if message.links and len(message.links[0].url) <= PUSHOVER_URL_UNITS:
        body["url"], body["url_title"] = message.links[0].url, fit(message.links[0].label, 100)
    if values.get("device"):
        body["device"] = values["device"]
    return Request(join_url(PUSHOVER_SERVER, "/1/messages.json"), body)


_key_problem = must_match(r"[A-Za-z0-9]{30}", "Pushover's keys have 30 letters and digits.")
NTFY = ChannelKind(
    "ntfy",
    "ntfy",
    (
        Field("topic", "Topic", "Whoever knows it can read it.", problem=limits.topic_problem),
        Field(
            "server",
            "Server",
            "Leave empty for the server of this installation.",
            is_required=False,
            problem=_ntfy_server_problem,
        ),
        Field("token", "Access token", "For a protected topic.", is_secret=True, is_required=False),
    ),
    _ntfy,
    "id",
)
GOTIFY = ChannelKind(
    "gotify",
    "Gotify",
    (
        Field("server", "Server", "Like https://gotify.example.org.", problem=server_problem),
        Field("token", "Application token", "From Apps on your Gotify server.", is_secret=True),
    ),
    _gotify,
    "id",
)
PUSHOVER = ChannelKind(
    "pushover",
    "Pushover",
    (
        Field("user", "User key", "On your Pushover page.", is_secret=True, problem=_key_problem),
        Field(
            "token",
            "API token",
            "Of an application that you create there.",
            is_secret=True,
            problem=_key_problem,
        ),
        Field(
            "device",
            "Device",
            "Leave empty for all.",
            is_required=False,
            problem=must_match(
                r"[A-Za-z0-9_-]{1,25}", "The name of a device has 1 to 25 letters, digits, - and _."
            ),
        ),
    ),
    _pushover,
    "request",
)
