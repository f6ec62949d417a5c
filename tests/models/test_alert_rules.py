"""The rules about the alerts of a job, as people read about them."""

from pathlib import Path

from cronty_site.terminal.adding import add_command
from schedules.api.schemas.jobs import PolicyIn
from schedules.models.alert_rules import read_rules
from schedules.services.files.schema import job_schema
from schedules.web.forms.jobs import JobForm

CHANNELS = Path(__file__).parents[2] / "docs/how-to/channels.md"


def test_short_help_of_each_interface_names_the_rules():
    helps = [
        str(JobForm.base_fields["alerts"].help_text),
        next(str(option.help) for option in add_command.params if option.name == "alerts"),
        str(PolicyIn.model_fields["alerts"].description),
        str(job_schema({})),
        CHANNELS.read_text(encoding="utf-8"),
    ]

    for rule in ("not late", "also missed", "at night"):
        assert read_rules(rule)
        assert all(rule in text for text in helps)
