"""Helpers for tests of the admin pages."""

from django.urls import reverse


def page(model, name: str, *args) -> str:
    return reverse(f"admin:schedules_{model.__name__.lower()}_{name}", args=args)


def posted(client, url: str, data=None):
    """Submit a form and follow its redirect."""
    return client.post(url, data or {}, follow=True)


def acted(client, model, action: str, *rows, **more):
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    return posted(client, page(model, "changelist"), chosen | more)


def messages_of(response) -> list[str]:
    return [str(message) for message in response.context["messages"]]
