"""Answers to notifications: by link, page, agent and terminal."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from schedules import engine, services
from schedules.models import Event, Execution, Job, Question, Reminder
from schedules.models.questions import MAX_ANSWERS
from schedules.result import Code, Err, Ok
from schedules.services.jobs.undo import last_call, undo
from schedules.services.runs import answers
from schedules.services.runs.answers import DONE, SKIP, SNOOZE, UNDO
from schedules.services.runs.question_words import describe_question, reminder_words
from schedules.tasks.signed_links import Button, answer_token, read_answer
from tests.factories import ExecutionFactory, QuestionFactory, ReminderFactory, reminder_job

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def run(owner) -> Execution:
    """A run that has asked for an answer ten minutes ago, and whose next reminder is due."""
    job = reminder_job(ask="every 10m 5 times", owner=owner, next_run_at=NOW + 60 * MINUTE, cron="0 * * * *")
    row = ExecutionFactory(job=job, scheduled_for=NOW - 10 * MINUTE, status="succeeded")
    Question.objects.create(execution=row, job=job, asked_at=NOW - 10 * MINUTE, due_at=NOW)
    return row


def link(run: Execution, button: str = "done"):
    return read_answer(answer_token(run.pk, run.key, Button(button)))


def press(run: Execution, button: str = "done"):
    found = answers.find_linked(link(run, button))
    return found if isinstance(found, Err) else answers.answer_by_link(found.value, button)


def choose(run: Execution, answer: str, seen: int, until: datetime | None = None):
    return answers.answer_by_link(answers.find_linked(link(run, "page")).value, answer, until, seen=seen)


def question() -> Question:
    return Question.objects.get()


def test_done_ends_the_reminders_and_says_who_and_after_how_long(run):
    assert isinstance(press(run), Ok)

    row = question()
    assert (row.status, row.due_at, row.answered_by) == ("done", None, "ntfy: home")
    assert describe_question(row, run.job) == "Done by ntfy: home, after 10 min."
    event = Event.objects.get()
    assert (event.verb, event.door, event.after) == (
        "answer",
        "link",
        {"answer": "done", "execution": run.pk},
    )


def test_button_snoozes_for_ten_minutes(run):
    press(run, "snooze")

    assert (question().status, question().due_at) == ("snoozed", NOW + 10 * MINUTE)


def test_skip_leaves_out_the_next_run(run):
    press(run, "skip")

    assert question().status == "skipped"
    assert run.job.__class__.objects.get().skips == "2026-02-04T10:00:00Z"


def test_one_time_job_has_no_run_to_skip_and_stays_unanswered(owner):
    job = reminder_job(owner=owner, once=True, status="completed", run_at=NOW, next_run_at=None)
    run = ExecutionFactory(job=job, scheduled_for=NOW)

    assert press(run, "skip").code == Code.JOB_ALREADY_COMPLETED
    # It would stay without its reminders otherwise: its worker has not recorded it yet.
    assert not Question.objects.exists()


def test_second_phone_is_told_what_the_first_one_did(run, now):
    press(run)
    now.shift(5 * MINUTE)

    refusal = press(run, "snooze")

    assert (refusal.code, refusal.state, refusal.reason) == (Code.ALREADY_ANSWERED, "done", "ntfy: home")
    assert refusal.until == "Wed 4 Feb 2026 09:00"


def test_same_answer_twice_is_no_error_and_changes_nothing(run, now):
    press(run)
    now.shift(5 * MINUTE)

    again = press(run)

    assert again.value.is_repeated
    assert question().answered_at == NOW
    assert Event.objects.count() == 1


def test_button_works_once_so_that_a_replay_does_not_snooze_again(run, now):
    press(run, "snooze")
    now.shift(5 * MINUTE)

    assert press(run, "snooze").code == Code.LINK_USED
    assert question().due_at == NOW + 10 * MINUTE


def test_replayed_done_after_undo_is_refused(run):
    press(run)
    choose(run, UNDO, 1)

    assert press(run).code == Code.LINK_USED
    assert question().status == "open"


def test_buttons_of_a_reminder_answer_the_first_message(run):
    reminder = ReminderFactory(question=question())

    assert isinstance(press(reminder.execution, "snooze"), Ok)
    assert isinstance(press(run, "snooze"), Ok)
    assert [each["link"] for each in question().answers] == [
        f"{reminder.execution.pk}.snooze",
        f"{run.pk}.snooze",
    ]


def test_answer_withdraws_a_reminder_that_has_not_started(run):
    engine.send_reminders(NOW)

    press(run)

    row = Reminder.objects.get().execution
    assert (row.status, row.reason) == ("cancelled", "Answered by ntfy: home.")


def test_quick_reader_answers_before_the_worker_has_recorded_the_question(owner):
    run = ExecutionFactory(job=reminder_job(owner=owner), status="running", scheduled_for=NOW)

    press(run)

    assert question().status == "done"


# The page


@pytest.mark.parametrize(
    ("until", "reason"),
    [
        (NOW, "Choose a time in the future."),
        (NOW - MINUTE, "Choose a time in the future."),
        (NOW + timedelta(days=400), "Choose a time within a year."),
    ],
)
def test_snooze_needs_a_sensible_end(run, until, reason):
    assert choose(run, SNOOZE, 0, until).reasons == reason
    assert question().status == "open"


def test_page_of_a_used_form_is_no_way_to_repeat_it(run):
    choose(run, SNOOZE, 0)

    assert choose(run, SNOOZE, 0).code == Code.ANSWERED_MEANWHILE


@pytest.mark.parametrize("answer", [DONE, SNOOZE, SKIP])
def test_undo_restores_what_was_before(run, answer):
    press(run, answer)

    choose(run, UNDO, 1)

    row = question()
    assert (row.status, row.due_at, row.answered_by) == ("open", NOW + MINUTE, "")
    assert run.job.__class__.objects.get().skips == ""


def test_undo_of_done_names_again_who_had_snoozed(run):
    press(run, "snooze")
    press(run)

    choose(run, UNDO, 2)

    row = question()
    assert (row.status, row.due_at, row.answered_by) == ("snoozed", NOW + 10 * MINUTE, "ntfy: home")


def test_history_undoes_an_answer(run, actor):
    services.answer(actor, run.job.public_id, DONE)

    assert isinstance(undo(actor, last_call(actor)), Ok)
    assert question().status == "open"


# Jobs that change meanwhile


def test_link_is_bound_to_its_slot_because_a_restore_may_give_its_number_to_another_run(run):
    found = link(run)
    Execution.objects.filter(pk=run.pk).update(scheduled_for=NOW - 30 * MINUTE)

    assert answers.find_linked(found).code == Code.LINK_UNKNOWN


CLOSED = {"status": "closed", "reason": "The next run came.", "due_at": None}
# What happened to a job that has asked, and what its buttons say then; an empty text is no refusal.
MEANWHILE = {
    "paused": (lambda actor, run: services.pause(actor, run.job.public_id), "", "JOB_ALREADY_PAUSED"),
    "edited": (
        lambda actor, run: services.edit(
            actor, run.job.public_id, kwargs={"message": "Other pills", "topic": "home"}
        ),
        "",
        "",
    ),
    "cancelled": (lambda actor, run: services.cancel(actor, run.job.public_id), "", "JOB_ALREADY_CANCELLED"),
    "closed": (lambda actor, run: Question.objects.update(**CLOSED), "", "QUESTION_CLOSED"),
    "answered often": (
        lambda actor, run: Question.objects.update(answers=[{"link": "", "answer": "snooze"}] * MAX_ANSWERS),
        "TOO_MANY_ANSWERS",
        "TOO_MANY_ANSWERS",
    ),
    "deleted": (
        lambda actor, run: services.delete(actor, run.job.public_id),
        "JOB_NOT_FOUND",
        "JOB_NOT_FOUND",
    ),
    "without an owner": (
        lambda actor, run: type(actor.user).objects.update(is_active=False),
        "JOB_OWNER_INACTIVE",
        "JOB_OWNER_INACTIVE",
    ),
    "pruned": (lambda actor, run: Execution.objects.all().delete(), "LINK_UNKNOWN", "LINK_UNKNOWN"),
}


@pytest.mark.parametrize("change", MEANWHILE)
@pytest.mark.parametrize("button", ["done", "snooze"])
def test_buttons_of_a_job_that_has_changed_meanwhile(run, actor, change, button):
    happens, done, snoozed = MEANWHILE[change]
    happens(actor, run)

    result = press(run, button)

    assert (result.code.name if isinstance(result, Err) else "") == (done if button == "done" else snoozed)
    if change == "paused":
        run.job.refresh_from_db()
        words = reminder_words(run.job)
        assert "Done by" in words or words.endswith("Reminders go on when the job is resumed.")


@pytest.mark.parametrize(
    ("topic", "kwargs", "name"),
    [
        ("boss", {}, "ntfy: boss"),
        ("channel:My Phone", {}, "channel: My Phone"),
        ("", {"message": "Pills", "ask": "yes", "channel": "My Phone"}, "channel: My Phone"),
    ],
)
def test_answer_names_who_was_told(run, topic, kwargs, name):
    if kwargs:
        Job.objects.update(kwargs=kwargs)

    press(ReminderFactory(question=question(), topic=topic).execution)

    assert question().answered_by == name


# By reference


def test_what_cannot_be_answered_is_refused(run, actor, owner, stranger):
    linked = answers.find_linked(link(run, "done")).value
    silent = reminder_job(owner=owner)

    assert answers.answer_by_link(linked, SNOOZE).code == Code.LINK_UNKNOWN
    assert choose(run, UNDO, 0).code == Code.NO_ANSWER_TO_UNDO
    assert services.answer(actor, silent.public_id, DONE).code == Code.NOTHING_ASKED
    assert services.answer(services.Actor(stranger), run.job.public_id, DONE).code == Code.JOB_NOT_FOUND


def test_answer_by_reference_is_for_the_newest_question(run, actor):
    yesterday = run.scheduled_for - timedelta(days=1)
    first = Question.objects.get()
    Question.objects.update(status="closed", reason="The next run came.", due_at=None)
    Execution.objects.filter(pk=run.pk).update(scheduled_for=yesterday)
    today = ExecutionFactory(job=run.job, scheduled_for=NOW - 10 * MINUTE)
    QuestionFactory(execution=today, due_at=NOW)

    assert "next: reminder 1" in reminder_words(run.job).lower()
    assert isinstance(services.answer(actor, run.job.public_id, DONE), Ok)

    assert Question.objects.get(pk=today.pk).status == "done"
    assert Question.objects.get(pk=first.pk).status == "closed"
    assert isinstance(undo(actor, last_call(actor)), Ok)
    assert Question.objects.get(pk=today.pk).status == "open"


def test_whoever_is_logged_in_and_may_change_the_job_answers_under_their_own_name(run, owner, stranger):
    own = answers.find_linked(link(run), services.Actor(owner, Event.Door.WEB)).value
    other = answers.find_linked(link(run), services.Actor(stranger, Event.Door.WEB)).value

    assert (own.actor.label, other.actor.label) == (owner.username, "ntfy: home")


def test_question_is_found_from_its_run_and_from_its_reminders(run):
    reminder = ReminderFactory(question=question())

    assert answers.question_of(run) == answers.question_of(reminder.execution) == question()
    assert answers.question_of(ExecutionFactory()) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {},
            "Waiting for an answer since Wed 4 Feb 2026 08:50. Next: reminder 1 of 5 at Wed 4 Feb 2026 09:00.",
        ),
        (
            {"reminders": 5, "due_at": None},
            "Waiting for an answer since Wed 4 Feb 2026 08:50, after 5 reminders.",
        ),
        (
            {"status": "snoozed", "answered_by": "olga"},
            "Snoozed by olga until Wed 4 Feb 2026 09:00.",
        ),
        ({"status": "closed", "reminders": 1, "reason": "R."}, "Not answered, after 1 reminder. R."),
        (
            {"reminders": 5},
            "Waiting for an answer since Wed 4 Feb 2026 08:50, after 5 reminders. Next: a message to the channel fax at Wed 4 Feb 2026 09:00.",
        ),
    ],
)
def test_question_in_words(run, fields, words):
    Question.objects.update(**fields)
    Job.objects.update(kwargs={"message": "Pills", "ask": "every 10m 5 times then channel:fax"})

    assert describe_question(question(), Job.objects.get()) == words
