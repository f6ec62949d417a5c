"""The secret key that all hosts of an installation share: check it against its fingerprint in the database, and change it."""

import logging

from django.conf import settings
from django.db import transaction

from schedules import clock
from schedules.models import Calendar, Channel, Cluster, Installation, Secret
from schedules.secrets.encryption import UnreadableError, accepted_keys, fingerprint, reseal
from schedules.services.installation.command_words import how_to_run

logger = logging.getLogger(__name__)


class ForeignSecretKeyError(Exception):
    """This host has another secret key than the installation; the text says what to do."""


class SecretKeyNotSharedError(Exception):
    """Hosts that are running do not accept this host's key yet; the text names them and says what to do."""


def require_secret_key() -> None:
    """Raise ForeignSecretKeyError unless this host has the installation's key; the first host records its own.

    A host that lists the installation's key in SECRET_KEY_FALLBACKS replaces it with its own as soon as all running hosts
    accept that. Until then, and if its own key was replaced earlier, it works with the installation's.
    """
    mine = fingerprint(settings.SECRET_KEY)
    row = Installation.objects.get_or_create(pk=Installation.ONLY, defaults={"secret_fingerprint": mine})[0]
    if _is_foreign(row):
        raise ForeignSecretKeyError(_foreign_key_message())
    if mine in (row.secret_fingerprint, row.replaced_fingerprint):
        return
    try:
        adopt_secret_key()
    except SecretKeyNotSharedError as error:
        logger.warning("%s", error)


def secret_key_problem() -> str:
    """Return the error that `require_secret_key` would raise, or an empty text; this only reads."""
    row = Installation.objects.filter(pk=Installation.ONLY).first()
    return _foreign_key_message() if row and _is_foreign(row) else ""


def secret_key_warning() -> str:
    """Return what remains to be done while the key is being changed, or an empty text; this only reads."""
    row = Installation.objects.filter(pk=Installation.ONLY).first()
    mine = fingerprint(settings.SECRET_KEY)
    if row is None or _is_foreign(row) or mine == row.secret_fingerprint:
        return ""
    if mine == row.replaced_fingerprint:
        return (
            "The secret key of this host was replaced on another one:"
            f" set the new key here, and move the old one to {_fallbacks()}."
        )
    return _not_shared_message(_hosts_without(mine)) or "The secret key of this host is about to be used."


def adopt_secret_key() -> list[str]:
    """Make this host's key the installation's, and encrypt all secrets with it.

    Return the names of the secrets that neither this key nor SECRET_KEY_FALLBACKS can read. Raise SecretKeyNotSharedError
    if a running host could no longer read secrets.
    """
    mine = fingerprint(settings.SECRET_KEY)
    with transaction.atomic():
        row = Installation.objects.select_for_update().get_or_create(pk=Installation.ONLY)[0]
        if row.secret_fingerprint and (hosts := _hosts_without(mine)):
            raise SecretKeyNotSharedError(_not_shared_message(hosts))
        if row.secret_fingerprint not in ("", mine):
            row.replaced_fingerprint = row.secret_fingerprint
        row.secret_fingerprint = mine
        row.save(update_fields=["secret_fingerprint", "replaced_fingerprint"])
        unreadable = [*_reseal(Secret, ""), *_reseal(Channel, "channel "), *_reseal(Calendar, "calendar ")]
    if unreadable:
        logger.warning(
            "Secrets that no known key can read have to be written again: %s", ", ".join(unreadable)
        )
    return unreadable


def _reseal(model: type[Secret] | type[Channel] | type[Calendar], prefix: str) -> list[str]:
    """Encrypt all rows with the current key; return the names of those that no known key can read."""
    unreadable = []
    rows = model._default_manager.select_for_update().exclude(sealed="").order_by("pk")
    for key, name, sealed in rows.values_list("pk", "name", "sealed"):
        try:
            model._default_manager.filter(pk=key).update(sealed=reseal(sealed))
        except UnreadableError:
            unreadable.append(f"{prefix}{name}")
    return unreadable


def _is_foreign(row: Installation) -> bool:
    return row.secret_fingerprint not in ["", *accepted_keys()]


def _hosts_without(key: str) -> list[str]:
    """Return the hosts of live clusters that do not accept this key."""
    live = Cluster.objects.fresh(clock.now()).order_by("host", "pk").values_list("host", "secret_keys")
    return list(dict.fromkeys(host for host, keys in live if key not in keys))


def _not_shared_message(hosts: list[str]) -> str:
    if not hosts:
        return ""
    return (
        f"The secret key of this host is not used yet, because these hosts do not accept it: {', '.join(hosts)}."
        f" Add it to {_fallbacks()} there, and restart them, or stop them."
    )


def _fallbacks() -> str:
    return "CRONTY_SECRET_KEY_FALLBACKS" if hasattr(settings, "CRONTY_DATA") else "SECRET_KEY_FALLBACKS"


def _foreign_key_message() -> str:
    if folder := getattr(settings, "CRONTY_DATA", None):
        where = f"its CRONTY_SECRET_KEY, or its file data/secret_key to {folder / 'secret_key'}"
    else:
        where = "its setting SECRET_KEY"
    return (
        "This host has another secret key than the hosts that already use this database, so tokens and logins of"
        f" one would be invalid at the other. Copy the key from such a host: {where}. To change the key on"
        f" purpose, put the old one into {_fallbacks()}, or, if it is lost, run `{how_to_run('adopt_secret_key')}`."
    )
