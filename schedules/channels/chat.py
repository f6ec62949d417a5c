"""The chat channels: Telegram, Slack, Discord and Matrix."""

import html
from urllib.parse import quote

from schedules.channels.kinds import ChannelKind, Field, Request, Values, join_url, must_match, server_problem
from schedules.channels.message import DEFAULT_PRIORITY, Message, count_units, fit, text_with_links
from schedules.tasks.links import WEB_SCHEMES
from schedules.tasks.outbound import Target

TELEGRAM_UNITS = 4096
SLACK_UNITS = 4000
DISCORD_TITLE_UNITS = 256
DISCORD_UNITS = 4096
MATRIX_UNITS = 8000
RED, BLUE = 0xD03B3B, 0x2F6FDE


def _telegram(values: Values, message: Message) -> Request:
    title = fit(message.title, TELEGRAM_UNITS // 8)
    body = {
        "chat_id": values["chat"],
        # Plain text with formatting ranges, so that nothing in it has to be escaped.
        "text": text_with_links(message, TELEGRAM_UNITS, title=title),
        "entities": [{"type": "bold", "offset": 0, "length": count_units(title)}] if title else [],
        "disable_notification": message.priority < DEFAULT_PRIORITY,
        "link_preview_options": {"is_disabled": True},
    }
    return Request(join_url(values["server"], f"/bot{values['token']}/sendMessage"), body)


def _slack(values: Values, message: Message) -> Request:
    title = f"*{_slack_text(fit(message.title, 200))}*" if message.title else ""
    links = "\n".join(f"<{_slack_text(link.url)}|{_slack_text(link.label)}>" for link in message.links)
    text = _slack_text(fit(message.text, SLACK_UNITS))
    body = {"text": "\n".join(part for part in (title, text, links) if part), "unfurl_links": False}
    return Request(values["webhook"], body)


def _slack_text(text: str) -> str:
    """Escape what Slack would read as a mention, a link or an entity."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "\u2758")


def _discord(values: Values, message: Message) -> Request:
    embed = {
        "description": text_with_links(message, DISCORD_UNITS),
        "color": RED if message.priority > DEFAULT_PRIORITY else BLUE,
    }
    if message.title:
        embed["title"] = fit(message.title, DISCORD_TITLE_UNITS)
    if message.click.partition(":")[0] in WEB_SCHEMES:
        embed["url"] = message.click
    # The text must not ping anybody.
    body = {"embeds": [embed], "allowed_mentions": {"parse": []}}
    return Request(f"{values['webhook'].split('?')[0]}?wait=true", body)


def _discord_problem(url: str) -> str | None:
    if problem := server_problem(url):
        return problem
    path = Target.parse(url).path.split("?")[0]
    return must_match(r"/api/(v\d+/)?webhooks/\d+/[\w-]+/?", "Copy the whole webhook address from Discord.")(
        path
    )


def _matrix(values: Values, message: Message) -> Request:
    room, transaction = quote(values["room"], safe=""), quote(message.key, safe="")
    path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}"
    body = {
        "msgtype": "m.text",
        "body": text_with_links(message, MATRIX_UNITS, title=message.title),
        "format": "org.matrix.custom.html",
        "formatted_body": _matrix_html(message),
    }
    headers = {"authorization": f"Bearer {values['token']}"}
    return Request(join_url(values["server"], path), body, headers, method="PUT")


def _matrix_html(message: Message) -> str:
    title = f"<strong>{html.escape(message.title)}</strong><br>" if message.title else ""
    text = html.escape(fit(message.text, MATRIX_UNITS)).replace("\n", "<br>")
    links = "".join(
        f'<br><a href="{html.escape(link.url)}">{html.escape(link.label)}</a>'
        for link in message.links
        if link.url.partition(":")[0] in WEB_SCHEMES
    )
    return f"{title}{text}{links}"


TELEGRAM = ChannelKind(
    "telegram",
    "Telegram",
    (
        Field(
            "token",
            "Bot token",
            "From @BotFather. Send your bot a message first: bots cannot begin a chat.",
            is_secret=True,
            problem=must_match(
                r"[0-9]{3,20}:[A-Za-z0-9_-]{10,80}", "A bot token looks like 123456:ABC-DEF1234ghIkl."
            ),
        ),
        Field(
            "chat",
            "Chat id",
            "A number, negative for a group, or @name of a channel.",
            problem=must_match(
                r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,40}", "A chat id is a number, or @ and the name of a channel."
            ),
        ),
        Field(
            "server",
            "API server",
            "Only change it for a Bot API server of your own.",
            default="https://api.telegram.org",
            problem=server_problem,
        ),
    ),
    _telegram,
    "message_id",
)
SLACK = ChannelKind(
    "slack",
    "Slack",
    (
        Field(
            "webhook",
            "Webhook address",
            "Of an incoming webhook. Mattermost's and Rocket.Chat's work, too.",
            is_secret=True,
            problem=server_problem,
        ),
    ),
    _slack,
)
DISCORD = ChannelKind(
    "discord",
    "Discord",
    (
        Field(
            "webhook",
            "Webhook address",
            "In the settings of the Discord channel: Integrations, Webhooks.",
            is_secret=True,
            problem=_discord_problem,
        ),
    ),
    _discord,
    "id",
)
MATRIX = ChannelKind(
    "matrix",
    "Matrix",
    (
        Field("server", "Homeserver", "Like https://matrix.example.org.", problem=server_problem),
        Field(
            "room",
            "Room id",
            "In the room's settings, Advanced. Invite the user of the token first.",
            problem=must_match(r"![^\s/?#]{1,250}", "A room id begins with !, like !abc:example.org."),
        ),
        Field("token", "Access token", "Of a user made for this.", is_secret=True),
    ),
    _matrix,
    "event_id",
    note="Rooms with end-to-end encryption show these messages as not encrypted.",
)
