"""The owners of jobs and runs, for the filters of staff, who see those of everybody."""

from django.contrib.auth import get_user_model

from schedules.services import Actor
from schedules.services.people.profiles import MOST_OWNERS


def owners_for(actor: Actor) -> list[str]:
    """Return login names to choose from, none for a person who sees only their own jobs; any other can be typed."""
    if not actor.sees_all:
        return []
    users = get_user_model()
    names = users._default_manager.order_by("pk").values_list(users.USERNAME_FIELD, flat=True)
    return sorted(names[:MOST_OWNERS])


def owner_called(name: str) -> int:
    """Return the key of the user with this login name, or 0."""
    users = get_user_model()
    found = users._default_manager.filter(**{users.USERNAME_FIELD: name})
    return found.values_list("pk", flat=True).first() or 0
