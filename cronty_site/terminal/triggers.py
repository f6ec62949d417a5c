"""The subcommand `trigger`: open and close the trigger address of a job; a new address is printed once."""

import click

from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.output import answer, show_once
from cronty_site.terminal.session import Session, subcommand
from schedules.models import TriggerAddress
from schedules.services.jobs.addresses import close_trigger, open_trigger


@subcommand(
    "trigger",
    examples="""
    cronty trigger "Stand up"
    cronty trigger Deploy --scheme github --secret GITHUB_HOOK
    cronty trigger Deploy --close
    """,
)
@click.argument("reference", metavar="JOB", shell_complete=complete_job)
@click.option(
    "--scheme",
    type=click.Choice([value for value in TriggerAddress.Scheme.values if value]),
    help="Who signs the requests.  [default: nobody, the address is secret]",
)
@click.option("--secret", help="The name of your secret that checks signatures.")
@click.option("--close", "is_closed", is_flag=True, help="Take the address away.")
def trigger_command(
    session: Session, reference: str, scheme: str | None, secret: str | None, is_closed: bool
) -> None:
    """Give JOB an address: a POST request to it starts a run. A second call gives it a new one."""
    job = session.job(reference)
    if is_closed:
        session.expect(close_trigger(session.actor, job.public_id))
        answer({"id": job.public_id, "url": None}, f"{job.name} has no trigger address any more.")
        return
    opened = session.expect(
        open_trigger(session.actor, job.public_id, scheme=scheme or "", secret_name=secret or "")
    )
    show_once(
        {"id": job.public_id, "url": opened.url},
        opened.url,
        "It is not shown again. An address that it had before works for seven more days.",
    )
