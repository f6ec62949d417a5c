"""What a change of the secret key in the wrong order must be answered."""

from subprocess import CompletedProcess

import pytest

from schedules.services.installation.secret_key import _not_shared_message
from schedules.tasks.interface import RetryLater
from schedules.worker.secret_access import _value_for
from verification.faults.disturbances import UNREADABLE
from verification.faults.keys import early_problem


def test_refusal_that_names_the_host_without_the_key_is_right():
    refused = CompletedProcess([], 1, "", f"CommandError: {_not_shared_message(['up'])}")

    assert early_problem(refused, "up") == ""
    assert "does not name second" in early_problem(refused, "second")


def test_key_that_is_used_too_early_is_reported():
    assert "although up did not accept it" in early_problem(CompletedProcess([], 0, "", ""), "up")


def test_words_of_an_unreadable_secret_are_those_of_the_product():
    class Row:
        name, sealed, hosts, commands, place = "KEY", "not sealed", ["a.example"], (), ""

    with pytest.raises(RetryLater, match=UNREADABLE):
        _value_for(Row(), "a.example", "")
