"""The output of a run, as somebody follows it."""

import pytest

from schedules import engine
from schedules.engine.upkeep.prune import delete_batches
from schedules.models import Execution, RunOutput
from schedules.services import output_since
from schedules.tasks.commands.output import KeptOutput
from tests.factories import ExecutionFactory

pytestmark = pytest.mark.django_db


def test_run_without_output_has_none():
    assert output_since(ExecutionFactory()) == ("", 0, 0, True, ())


def test_follower_sees_every_character_once_and_a_gap_where_it_was_too_slow():
    run = ExecutionFactory(status="running", attempt=1)
    kept, seen, position, attempt = KeptOutput(40), "", 0, 0
    for number in range(10):
        kept.add(1, f"line {number}\n".encode())
        engine.save_output(run.pk, 1, kept.text)
        part = output_since(run, position, attempt)
        seen, position, attempt = seen + part.text, part.position, part.attempt
        assert not part.is_ended

    assert seen == "".join(f"line {number}\n" for number in range(10))
    whole = output_since(run).text
    assert whole.startswith("line 0\nlin\n… 30 characters left out …\n")
    assert whole.endswith("line 8\nline 9\n")
    late = output_since(run, 20, 1).text
    assert late.startswith("\n… 20 characters left out …\n")


def test_newer_attempt_begins_again():
    run = ExecutionFactory(status="queued", attempt=1)
    engine.save_output(run.pk, 1, KeptOutput(100).text._replace(head="first\n", position=6))
    first = output_since(run)
    engine.save_output(run.pk, 2, KeptOutput(100).text._replace(head="second\n", position=7))

    second = output_since(run, first.position, first.attempt)

    assert (first.text, first.attempt) == ("first\n", 1)
    assert (second.text, second.attempt, second.is_ended) == ("second\n", 2, False)


def test_pruned_run_takes_its_output_along():
    run = ExecutionFactory()
    engine.save_output(run.pk, 1, KeptOutput(100).text._replace(head="x", position=1))

    assert sum(delete_batches(Execution.objects.all())) == 1
    assert not RunOutput.objects.exists()


def test_colours_of_the_end_follow_the_line_about_what_is_left_out():
    run = ExecutionFactory(status="running", attempt=1)
    kept = KeptOutput(40)
    kept.add(1, b"\x1b[32mbegin\x1b[0m" + b"." * 100 + b"\x1b[31mbad")
    engine.save_output(run.pk, 1, kept.text)

    whole = output_since(run)

    assert [(whole.text[position : position + 3], codes) for position, codes in whole.colours] == [
        ("beg", "32"),
        ("...", "0"),
        ("bad", "31"),
    ]
    assert output_since(run, 20, 1).colours == ()
