"""Accounts of the host: look up the user that a command runs as."""

import os
import pwd
from typing import NamedTuple

from schedules.tasks.processes import Identity


class AccountError(Exception):
    """A command cannot run as this user; the message says why, and what to do."""


class Account(NamedTuple):
    """A user of this host; `identity` is None for the user who runs Cronty, because no switch is needed."""

    name: str
    home: str
    identity: Identity | None = None


def account_of(user: str | None) -> Account:
    """Return the account with this name, or that of the user who runs Cronty; raises AccountError."""
    if user is None:
        return _own_account()
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        raise AccountError(f"this host has no user {user}; create it, or correct user in the file") from error
    if entry.pw_uid == os.geteuid():
        return Account(entry.pw_name, entry.pw_dir)
    if os.geteuid() != 0:
        raise AccountError(
            f"it runs as the user {user}, for which Cronty must run as root; start Cronty as root or as {user},"
            " or remove user from the file"
        )
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Account(entry.pw_name, entry.pw_dir, Identity(entry.pw_uid, entry.pw_gid, tuple(groups)))


def _own_account() -> Account:
    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:
        # A container may run as a user id that has no name.
        return Account("", "/")
    return Account(entry.pw_name, entry.pw_dir)
