"""The subcommand `events`: manage receivers of events and see deliveries; a new secret is printed once."""

import click

from cronty_site.terminal.output import answer, print_list, show_once
from cronty_site.terminal.rows import clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.models import EventSubscription, EventType, Execution
from schedules.services.documents import delivery_json, event_subscription_json
from schedules.services.people.event_deliveries import list_deliveries, redeliver, send_test_event
from schedules.services.people.event_subscriptions import (
    SubscriptionSecret,
    SubscriptionSpec,
    add_subscription,
    delete_subscription,
    find_subscription,
    list_subscriptions,
    rotate_secret,
    switch_subscription,
)


@subcommand(
    "events",
    examples="""
    cronty events
    cronty events n8n --add https://n8n.example.com/webhook/1 --type run.failed --tag backup
    cronty events n8n --test
    cronty events n8n
    cronty events n8n --again 4711
    cronty events n8n --new-secret
    cronty events n8n --off
    """,
)
@click.argument("name", required=False)
@click.option("--add", "url", metavar="URL", help="Add a receiver at this https address.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(EventType.values),
    help="An event that it is told of; give it several times.  [default: all]",
)
@click.option("--tag", default="", help="Only events of jobs with this tag.")
@click.option("--job", default="", help="Only events of this job.")
@click.option("--test", is_flag=True, help="Send a test event.")
@click.option("--again", type=int, metavar="RUN", help="Send this delivery again.")
@click.option("--new-secret", is_flag=True, help="Create a new secret; the old one signs too for a day.")
@click.option("--on", "is_on", is_flag=True, help="Switch it on again.")
@click.option("--off", "is_off", is_flag=True, help="Switch it off: no events are kept for it.")
@click.option("--delete", is_flag=True, help="Delete it.")
def events_command(
    session: Session,
    name: str | None,
    url: str | None,
    types: tuple[str, ...],
    tag: str,
    job: str,
    test: bool,
    again: int | None,
    new_secret: bool,
    is_on: bool,
    is_off: bool,
    delete: bool,
) -> None:
    """List the receivers of events, or the deliveries of NAME; add, test, switch or delete one."""
    if name is None:
        _print_receivers(session)
    elif url:
        spec = SubscriptionSpec(name, url, types or EventType.values, tag, job)
        _print_secret(session.expect(add_subscription(session.actor, spec)))
    elif new_secret:
        _print_secret(session.expect(rotate_secret(session.actor, name)))
    elif test or again is not None:
        queued = redeliver(session.actor, name, again) if again else send_test_event(session.actor, name)
        delivery = session.expect(queued)
        answer(delivery_json(delivery), f"On its way as run {delivery.pk}. See: cronty events {name}")
    elif is_on or is_off:
        row = session.expect(switch_subscription(session.actor, name, is_on=is_on))
        answer(event_subscription_json(row), f"{row.name} is {'on' if is_on else 'off'}.")
    elif delete:
        deleted = session.expect(delete_subscription(session.actor, name))
        answer({"deleted": deleted}, f"Deleted: {deleted}.")
    else:
        _print_deliveries(session, session.expect(find_subscription(session.actor, name)))


def _print_receivers(session: Session) -> None:
    print_list(
        list_subscriptions(session.actor),
        event_subscription_json,
        ("receiver", "state", "events", "last sent", "last error"),
        lambda row: _row(row, session.zone),
        shrink="last error",
        if_none="No receivers of events.",
    )


def _print_deliveries(session: Session, row: EventSubscription) -> None:
    print_list(
        list_deliveries(row),
        delivery_json,
        ("run", "event", "at", "status", "attempts", "error"),
        lambda run: _delivery_row(run, session.zone),
        shrink="error",
        if_none="Nothing was sent yet.",
    )


def _print_secret(opened: SubscriptionSecret) -> None:
    row = opened.subscription
    show_once(
        {**event_subscription_json(row), "secret": opened.secret},
        opened.secret,
        f"It is not shown again. Send a test: cronty events {row.name!r} --test",
    )


def _row(row: EventSubscription, zone: str) -> list[str]:
    sent_at = row.job.last_success_at
    return [
        row.name,
        "on" if row.is_on else "off",
        ", ".join(row.types),
        clock_text(sent_at, zone) if sent_at else "",
        row.job.last_error,
    ]


def _delivery_row(run: Execution, zone: str) -> list[str]:
    event = (run.given or {}).get("event") or {}
    return [
        str(run.pk),
        event.get("type", "test"),
        clock_text(run.scheduled_for, zone),
        run.status,
        str(run.attempt),
        run.error or run.reason,
    ]
