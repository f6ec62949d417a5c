"""Look up users and their profiles."""

from typing import Any, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet

from schedules.models import Profile
from schedules.models.people import is_active

# Cronty's own user, who owns its system jobs and cannot log in.
SYSTEM_USER = "cronty"
# How many login names a filter offers.
MAX_OWNERS = 50


def find_user(username: str) -> AbstractBaseUser | None:
    """Return the active user with this login name, or None."""
    users = get_user_model()
    return users._default_manager.filter(is_active(), **{users.USERNAME_FIELD: username}).first()


def find_active(key: str) -> AbstractBaseUser | None:
    """Return the active user with this key, or None."""
    if not key:
        return None
    return get_user_model()._default_manager.filter(is_active(), pk=key).first()


def user_called(name: str) -> int:
    """Return the key of the user with this login name, active or not, or 0."""
    users = get_user_model()
    keys = users._default_manager.filter(**{users.USERNAME_FIELD: name}).values_list("pk", flat=True)
    return keys.first() or 0


def owner_names() -> list[str]:
    """Return the login names that a filter offers; any other can be typed."""
    users = get_user_model()
    names = users._default_manager.order_by("pk").values_list(users.USERNAME_FIELD, flat=True)
    return sorted(names[:MAX_OWNERS])


def is_person(name: str) -> bool:
    """Return whether a user has this login name, in upper or lower case."""
    users = get_user_model()
    return users._default_manager.filter(**{f"{users.USERNAME_FIELD}__iexact": name}).exists()


def is_active_user(user: Any) -> bool:
    """Return whether a user still exists and is active."""
    return get_user_model()._default_manager.filter(is_active(), pk=user.pk).exists()


def profile_of_active(user: Any) -> Profile | None:
    """Return the profile of a user, or None if the user was deactivated or deleted."""
    # One query for both, because it delays every call of a local agent.
    profiles = Profile.objects.filter(is_active("user__"), user=user.pk)[:1]
    profile = next(iter(profiles), None)
    return profile or (profile_of(user) if is_active_user(user) else None)


def superusers() -> QuerySet[Any]:
    """Return the active superusers, oldest first; a user model without permissions has none."""
    users = get_user_model()
    if not hasattr(users, "is_superuser"):
        return users._default_manager.none()
    return users._default_manager.filter(is_active(), is_superuser=True).order_by("pk")


def first_user() -> Any | None:
    """Return the default user of a terminal: the oldest superuser, or else the oldest person."""
    users = get_user_model()
    people = users._default_manager.filter(is_active()).exclude(**{users.USERNAME_FIELD: SYSTEM_USER})
    return superusers().first() or people.order_by("pk").first()


def is_above(other: Any, user: Any) -> bool:
    """Return whether another user has more rights: superusers rank above staff, and staff above everybody else."""
    return _rank(other) > _rank(user)


def _rank(user: Any) -> tuple[bool, bool]:
    return getattr(user, "is_superuser", False), getattr(user, "is_staff", False)


def profile_of(user: Any) -> Profile:
    """Return a user's profile; create it if it does not exist."""
    # It nearly always exists, and `get_or_create` takes half as long again to find it.
    profile = next(iter(Profile.objects.filter(user=user.pk)[:1]), None)
    return profile or Profile.objects.get_or_create(user=user)[0]


def known_profile(user: Any) -> Profile:
    """Return the profile that this user object has cached; the row may have changed since."""
    try:
        return cast("Profile", user.cronty_profile)
    except ObjectDoesNotExist:
        return profile_of(user)


def change_calendar_address(user: Any, *, shown: str) -> bool:
    """Replace the secret address of a user's calendar if it is still `shown`; the old one stops working at once."""
    old = Profile.objects.filter(user=user, calendar_key=shown)
    return old.update(calendar_key=Profile._meta.get_field("calendar_key").get_default()) == 1
