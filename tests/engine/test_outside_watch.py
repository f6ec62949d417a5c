"""Pings to an outside watch: one a minute for the whole installation."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.models import Installation
from tests.engine.conftest import NOW

pytestmark = pytest.mark.django_db

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def test_one_process_of_all_pings_in_each_minute():
    moments = [NOW, NOW + SECOND, NOW + 59 * SECOND, NOW + MINUTE, NOW + MINUTE + SECOND]

    assert [engine.take_watch_turn(moment) for moment in moments] == [True, False, False, True, False]


def test_clock_that_was_ahead_does_not_end_the_pings():
    engine.take_watch_turn(NOW + timedelta(days=1))

    assert engine.take_watch_turn(NOW)
    assert not engine.take_watch_turn(NOW + SECOND)


def test_answer_clears_the_error_and_an_error_keeps_the_last_answer():
    engine.take_watch_turn(NOW)
    engine.note_watch_answer(NOW)
    engine.note_watch_answer(NOW + MINUTE, "no\x1b[31m answer" + "r" * 500)

    row = Installation.objects.get()
    assert row.watch_answered_at == NOW
    assert (row.watch_error[:14], len(row.watch_error)) == ("no[31m answerr", 200)

    engine.note_watch_answer(NOW + 2 * MINUTE)
    row.refresh_from_db()
    assert (row.watch_answered_at, row.watch_error) == (NOW + 2 * MINUTE, "")
