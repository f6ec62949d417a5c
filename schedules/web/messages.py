"""Why a service refused, in the words of the pages and the admin."""

from collections.abc import Mapping

from django.forms import BaseForm

from schedules.result import Code, Err
from schedules.worker.database_errors import TRY_AGAIN

_MESSAGES: Mapping[Code, str] = {
    Code.INVALID: "{0.reasons}",
    Code.TOO_FAR: "{0.reasons}",
    Code.NEVER_RUNS: "{0.reasons}",
    Code.JOB_NOT_FOUND: "This job no longer exists.",
    Code.JOB_READ_ONLY: "You may look at this job, but not change it.",
    Code.JOB_PROTECTED: "Cronty needs this job: it cannot be edited, stopped or deleted.",
    Code.JOB_ALREADY_PENDING: "This job is active already.",
    Code.JOB_ALREADY_PAUSED: "This job is paused already.",
    Code.JOB_ALREADY_RUNNING: "The last run of this job is still under way.",
    Code.JOB_ALREADY_COMPLETED: "This job has already finished.",
    Code.JOB_ALREADY_FAILED: "This job has already failed.",
    Code.JOB_ALREADY_CANCELLED: "This job was stopped permanently.",
    Code.JOB_NOT_PAUSED: "This job isn't paused.",
    Code.JOB_STOPPED_AGAIN: "Job was stopped again since then.",
    Code.JOB_RUNS_ONCE: "Job runs only once. Cancel it, or change its time.",
    Code.JOB_HAS_NO_NEXT_RUN: "This job has no next run.",
    Code.JOB_RUNS_ELSEWHERE: "This job runs elsewhere: only its pings count as runs.",
    Code.JOB_OWNER_INACTIVE: "The owner's account is not active, so this job cannot run.",
    Code.JOB_CHANGED: "Somebody else changed this job meanwhile. Read it again, then edit.",
    Code.JOB_FIRES_TOO_OFTEN: "This job fires all the time. Try again, or pause it first.",
    Code.JOB_NAME_AMBIGUOUS: "Several jobs are called {0.subject}. Choose one of them from the list.",
    Code.SIGNING_KEY_ALREADY_ROTATED: "The signing key of {0.subject} was already rotated.",
    Code.TASK_REFUSED: "{0.reason}",
    Code.JOB_UNCONFIRMED: "This job waits for your confirmation. Confirm it first.",
    Code.JOB_NOT_PROPOSED: "This job waits for no confirmation any more.",
    Code.JOB_TIME_PASSED: (
        "Its time passed before anybody confirmed it, so it did not run. Change its schedule, or discard it."
    ),
    Code.JOB_RUN_UNDER_WAY: (
        "A run that was started by hand is under way. Change the job when it has ended."
    ),
    Code.CONFIRMED_BY_PEOPLE: "Only a person can confirm a job that an agent has made or changed.",
    Code.RUN_NEEDS_CONFIRMATION: "A person confirms what this token runs: schedule it as a job.",
    Code.IDEMPOTENCY_KEY_REUSED: "The key {0.subject} was used for another request. Choose a new one.",
    Code.IDEMPOTENCY_KEY_OF_DELETED_JOB: "The job with the key {0.subject} was deleted. Choose a new key.",
    Code.CONFIRMATION_TOO_OLD: "This confirmation is too old: it is good for ten minutes.",
    Code.CONFIRMATION_UNKNOWN: "This is not a confirmation that Cronty has given.",
    Code.CONFIRMATION_OUTDATED: "The jobs or the request have changed since this was confirmed.",
    Code.TOO_MANY_MATCHES: "More than {0.limit:,} jobs match. Choose fewer.",
    Code.JOBS_CHANGED: "Some of these jobs have changed meanwhile.",
    Code.CHANGE_ALREADY_UNDONE: "This change was already undone.",
    Code.JOB_CHANGED_AGAIN: "Changed again since then.",
    Code.CHANGED_SECRET_NOT_KEPT: (
        "A secret value was changed, which is not kept: edit the job and write it again."
    ),
    Code.PLAN_OUTDATED: "A job was changed meanwhile: look at the plan again.",
    Code.FILE_ALREADY_APPLIED: "Somebody else applied this file meanwhile: look at the plan again.",
    Code.DEMO_JOBS_EXIST: "You already have demo jobs, tagged {0.subject}.",
    Code.RUN_NOT_FOUND: "This run no longer exists.",
    Code.RUN_NOT_RUNNING: "This run has already ended.",
    Code.RUN_NOT_A_COMMAND: "Only a command can be stopped while it runs.",
    Code.SLOT_PASSED: "It is too late to skip this run: its time has come.",
    Code.PROMPT_NOT_FOUND: "This prompt is no longer in the inbox.",
    Code.PROMPT_ANSWERED: "This prompt was already answered.",
    Code.PROMPT_DISMISSED: "This prompt was already dismissed.",
    Code.PROMPT_NOT_WAITING: "Prompt already {0.state}.",
    Code.PROMPT_NOT_LEASED: "No agent holds this prompt any more.",
    Code.PROMPT_HELD_BY_ANOTHER: "An agent holds this prompt until {0.until}.",
    Code.PROMPT_NOT_HELD: "This agent does not hold the prompt.",
    Code.PROMPT_LEASE_OVER: "The lease of this agent on the prompt is over.",
    Code.PROMPT_COUNT_OUT_OF_RANGE: "Choose 1 to {0.limit} prompts.",
    Code.PROMPT_ERROR_TOO_LONG: "Too long.",
    Code.NOTHING_ASKED: "No notification of this job has asked for an answer yet.",
    Code.ALREADY_ANSWERED: "Answered already: {0.state} ({0.reason}, {0.until}).",
    Code.ANSWERED_MEANWHILE: "Somebody has answered meanwhile. This is how it stands now.",
    Code.QUESTION_CLOSED: "No more reminders are sent. {0.reason}",
    Code.LINK_USED: "This button was used before. Open the notification to choose again.",
    Code.LINK_UNKNOWN: "This link is not valid, or its notification was deleted.",
    Code.LINK_EXPIRED: "This link has expired: links are valid for seven days.",
    Code.TOO_MANY_ANSWERS: "This notification was answered {0.limit} times. Open the job to change its reminders.",
    Code.NO_ANSWER_TO_UNDO: "There is no answer to undo.",
    Code.AGENTS_STOPPED: "{0.reason} A person can start them again.",
    Code.AGENTS_NOT_STOPPED: "The agents are not stopped.",
    Code.AGENTS_OF_EVERYBODY: "Only staff can stop the agents of everybody, or start them again.",
    Code.GRANTS_BY_PEOPLE: "Only a person can give a job permissions, or change what it does while it has some.",
    Code.APPROVALS_BY_PEOPLE: "Only a person can answer what an agent asks.",
    Code.APPROVAL_NOT_FOUND: "There is no such approval: it may have been deleted with its run.",
    Code.APPROVAL_OVER: "This was {0.state}.",
    Code.APPROVAL_CHANGED: "What is asked is not what was shown. Look at it again.",
    Code.APPROVAL_HAS_NO_GRANT: "No rule can always allow this: allow it once, or deny it.",
    Code.AGENTS_STARTED_BY_PEOPLE: "Only a person can start the agents again.",
    Code.TOO_MANY_JOBS: "At most {0.limit:,} active jobs; stop or delete some first.",
    Code.TOO_MANY_PLANNED_RUNS: (
        "At most {0.limit:,} planned runs a minute: this schedule would add {0.added:,.4g} to the {0.planned:,.4g}"
        " of your active jobs; choose a longer interval, or stop or delete some jobs first."
    ),
    Code.TOO_MANY_NEW_JOBS: "At most {0.limit} new jobs a minute; create fewer at once.",
    Code.TOO_MANY_WAITING_RUNS: "{0.limit} runs of this job are waiting already.",
    Code.TOO_MANY_TOKENS: "At most {0.limit} tokens; revoke one first.",
    Code.TOO_MANY_SECRETS: "There are {0.limit} secrets already: delete one first.",
    Code.TOO_MANY_CALENDARS: "There are {0.limit} calendars already: delete one first.",
    Code.JOBS_CREATED_TOO_FAST: "At most {0.limit} new jobs a minute; try again in {0.seconds} seconds.",
    Code.RUNS_STARTED_TOO_FAST: "At most {0.limit} runs by hand a minute; try again in {0.seconds} seconds.",
    Code.NOTIFICATIONS_SENT_TOO_FAST: (
        "At most {0.limit} notifications sent at once a minute; try again in {0.seconds} seconds."
    ),
    Code.CALLS_TOO_FAST: "At most {0.limit} calls a minute; try again in {0.seconds} seconds.",
    Code.TRIGGER_NOT_FOUND: "No job has this trigger address.",
    Code.TRIGGER_SIGNATURE_WRONG: "{0.reason}",
    Code.TRIGGER_REPLAYED: "This message was received before; it started run {0.subject}.",
    Code.TRIGGER_LOOP: "Stopped: the job would have started itself; run {0.subject} says so.",
    Code.PING_NOT_FOUND: "No job has this ping address.",
    Code.PING_SLUG_AMBIGUOUS: "Several jobs are called {0.subject} in ping addresses.",
    Code.PING_KEY_CHANGED: "The ping key was already changed: this is the new one.",
    Code.PING_KEY_TAKEN: "Somebody else here has this ping key: change it in healthchecks first.",
    Code.PING_KEY_KEPT: "Your ping key is another one, and addresses with names need that of the checks: replace yours, which stops your addresses with names, or take over checks with UUIDs only.",
    Code.PING_KEYS_DIFFER: "These checks are from several projects, each with a ping key of its own: take over one project for each person.",
    Code.TOKEN_NOT_FOUND: "This token no longer exists.",
    Code.TOKEN_OF_SUPERIOR: "Only its owner can revoke it, because they have more rights than you.",
    Code.TOKEN_ALREADY_REVOKED: "This token is already revoked.",
    Code.TOKEN_OF_APP: "A connected app renews its tokens itself: disconnect it instead.",
    Code.USER_IS_SUPERIOR: "You can't do this for a user with more rights than you.",
    Code.SECRET_NOT_FOUND: "The secret {0.subject} no longer exists.",
    Code.CALENDAR_NOT_FOUND: "The calendar {0.subject} no longer exists.",
    Code.INCIDENT_NOT_FOUND: "There is no such alert.",
    Code.INCIDENT_OVER: "That is over already.",
    Code.CALENDAR_IN_USE: "Jobs use {0.subject}: {0.listed_matches}. Take it out of them first.",
    Code.TOKENS_HIDDEN_FROM_AGENTS: "Agents cannot create tokens, or revoke those of others.",
    Code.SECRETS_HIDDEN_FROM_AGENTS: "Agents cannot see or change secrets.",
    Code.SECRETS_OF_INSTALLATION: "Only superusers manage the secrets of the installation.",
    Code.CHANNEL_NOT_FOUND: "The channel {0.subject} no longer exists.",
    Code.CHANNEL_IN_USE: (
        "{0.limit} jobs use the channel {0.subject}, like {0.listed_matches}: let them use another one first."
    ),
    Code.CHANNEL_CODE_WRONG: "This is not the code for {0.subject}. Copy it from the newest message.",
    Code.CHANNELS_BY_PEOPLE: "Agents cannot see or change channels; jobs refer to them by name.",
    Code.TOO_MANY_CHANNELS: "There are {0.limit} channels already: delete one first.",
    Code.EVENT_SUBSCRIPTION_NOT_FOUND: "Subscription not found: {0.subject}",
    Code.EVENT_TYPE_NOT_FOUND: "There is no event {0.subject}.",
    Code.EVENT_SUBSCRIPTION_OFF: "{0.subject} is switched off: switch it on first.",
    Code.EVENT_SUBSCRIPTION_OF_APP: "An app manages {0.subject}: it can only be switched off, tested or deleted here.",
    Code.EVENTS_BY_PEOPLE: "Agents cannot see or change subscriptions to events.",
    Code.TOO_MANY_EVENT_SUBSCRIPTIONS: "There are {0.limit} subscriptions already: delete one first.",
    Code.DELIVERY_NOT_FOUND: "Delivery not found: {0.subject}",
    Code.DELIVERY_UNDER_WAY: "Delivery {0.subject} has not ended yet.",
    Code.SECRET_KEY_CHANGED: (
        "The secret key was changed on another host: the operator must give it to this one first."
    ),
    Code.DATABASE_UNAVAILABLE: f"{TRY_AGAIN}.",
}


def message_of(problem: Err) -> str:
    """Return why a service refused, as sentences for a person."""
    return _MESSAGES[problem.code].format(problem)


def add_errors(form: BaseForm, problem: Err, *, fields: Mapping[str, str] | None = None) -> None:
    """Add a refusal to the fields of a form that it is about, or to the form as a whole.

    `fields` maps columns to form fields where their names differ.
    """
    for column, reasons in problem.errors.items():
        field = (fields or {}).get(column, column)
        form.add_error(field if field in form.fields else None, list(reasons))
    if not problem.errors:
        form.add_error(None, message_of(problem))
