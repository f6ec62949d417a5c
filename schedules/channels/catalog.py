"""The list of all channel kinds, in the order in which pages offer them."""

from schedules.channels.chat import DISCORD, MATRIX, SLACK, TELEGRAM
from schedules.channels.kinds import ChannelKind
from schedules.channels.mail import EMAIL
from schedules.channels.operator_services import APPRISE
from schedules.channels.push import GOTIFY, NTFY, PUSHOVER
from schedules.channels.web_push import WEB_PUSH
from schedules.channels.webhook import WEBHOOK

KINDS: dict[str, ChannelKind] = {
    kind.name: kind
    for kind in (NTFY, WEB_PUSH, EMAIL, TELEGRAM, SLACK, DISCORD, GOTIFY, PUSHOVER, MATRIX, WEBHOOK, APPRISE)
}
