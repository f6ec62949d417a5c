"""Limit failed logins, and log each in a format that fail2ban can read."""

import json
import logging
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessLog
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest

from schedules.services.people.hourly_limits import address_of
from schedules.services.people.hourly_limits import network_of as counted_network

# Failures within AXES_COOLOFF_TIME. The limit of a name is higher for all addresses together than for one, and does not
# apply to an address from which the person has logged in before: otherwise anybody could lock everybody out.
PER_NAME = 20
PER_ADDRESS = 20
LONGEST_NAME = 150
logger = logging.getLogger(__name__)


def name_of(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """Return the name to count failures for: as typed, in lower case.

    Counting by user would reveal whose e-mail address was locked, because the username would be locked, too.
    """
    typed = request.POST.get("username") or (credentials or {}).get("username") or ""
    # Databases compare e-mail addresses in upper case.
    return str(typed).strip().upper().lower().replace("\x00", "")[:LONGEST_NAME]


def network_of(request: HttpRequest) -> str | None:
    """Return the address to count failures for."""
    return counted_network(request.META.get("REMOTE_ADDR") or "")


class LoginLimits(AxesDatabaseHandler):
    """Counts failures per name and address, per name, and per address, each with its own limit."""

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Return the failures that count against AXES_FAILURE_LIMIT; at least that many if another limit is reached."""
        both, name, address = (
            attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0
            for attempts in self.get_user_attempts(request, credentials)
        )
        limit = int(settings.AXES_FAILURE_LIMIT)
        if address >= PER_ADDRESS or (name >= PER_NAME and not _has_logged_in_here(request, credentials)):
            return max(both, limit)
        return int(both)

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: Any = None, **more: Any
    ) -> None:
        was_locked = bool(request and request.axes_locked_out)
        super().user_login_failed(sender, credentials, request, **more)
        if request is None:
            return
        # The address comes first, and the name is quoted, so that no name can forge a line.
        logger.warning(
            "Login %s from %s, name %s, failure %s",
            "refused" if was_locked else "failed",
            address_of(request.META.get("REMOTE_ADDR") or ""),
            json.dumps(name_of(request, credentials)),
            request.axes_failures_since_start or "while locked",
        )


def _has_logged_in_here(request: Any, credentials: dict[str, Any] | None) -> bool:
    """Return whether this user has logged in from this address before."""
    username = (credentials or {}).get("username")
    return AccessLog.objects.filter(username=username, ip_address=request.axes_ip_address).exists()
