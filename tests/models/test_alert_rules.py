"""The rules about the alerts of a job, as people read about them."""

from pathlib import Path

from schedules.models.alert_rules import read_rules
from schedules.spec.job import JobSpec

CHANNELS = Path(__file__).parents[2] / "docs/how-to/channels.md"


def test_short_help_of_each_interface_names_the_rules():
    helps = [
        str(JobSpec.model_fields["alerts"].description),
        CHANNELS.read_text(encoding="utf-8"),
    ]

    for rule in ("not late", "also missed", "at night"):
        assert read_rules(rule)
        assert all(rule in text for text in helps)
