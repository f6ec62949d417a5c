"""Error messages: the text for each refusal code, shared by pages, tools, API and terminal.

Services return codes and never use this. Each interface overrides what it says differently, pages above all: they show
no ids.
"""

from collections.abc import Mapping

from schedules.result import Code
from schedules.worker.database_errors import TRY_AGAIN

REFUSALS: Mapping[Code, str] = {
    Code.INVALID: "{0.named_reasons}",
    Code.TOO_FAR: "{0.named_reasons}",
    Code.NEVER_RUNS: "{0.reasons}",
    Code.JOB_NOT_FOUND: "Job not found: {0.subject}",
    Code.JOB_READ_ONLY: "You may look at this job, but not change it: {0.subject}",
    Code.JOB_PROTECTED: "Cronty needs this job: it cannot be edited, stopped or deleted ({0.subject}).",
    Code.JOB_ALREADY_PENDING: "Job already {0.state}: {0.subject}",
    Code.JOB_ALREADY_PAUSED: "Job already {0.state}: {0.subject}",
    Code.JOB_ALREADY_RUNNING: "Job already {0.state}: {0.subject}",
    Code.JOB_ALREADY_COMPLETED: "Job already {0.state}: {0.subject}",
    Code.JOB_ALREADY_FAILED: "Job already {0.state}: {0.subject}",
    Code.JOB_ALREADY_CANCELLED: "Job already {0.state}: {0.subject}",
    Code.JOB_NOT_PAUSED: "Job is not paused: {0.subject}",
    Code.JOB_STOPPED_AGAIN: "Job was stopped again since then: {0.subject}",
    Code.JOB_RUNS_ONCE: "Job runs only once: {0.subject}. Cancel it, or change its time.",
    Code.JOB_HAS_NO_NEXT_RUN: "Job has no next run: {0.subject}",
    Code.JOB_RUNS_ELSEWHERE: "A heartbeat runs elsewhere and cannot be started here: {0.subject}",
    Code.JOB_OWNER_INACTIVE: "The owner's account is not active, so this job cannot run.",
    Code.JOB_CHANGED: "Somebody else changed this job meanwhile: {0.subject}. Read it again, then edit.",
    Code.JOB_FIRES_TOO_OFTEN: "This job fires all the time: {0.subject}. Try again, or pause it first.",
    Code.JOB_NAME_AMBIGUOUS: "Several jobs have this name: {0.listed_matches}. Give the id of the one you mean.",
    Code.SIGNING_KEY_ALREADY_ROTATED: "The signing key of {0.subject} was already rotated.",
    Code.TASK_REFUSED: "{0.reason}",
    Code.JOB_UNCONFIRMED: (
        "This job waits until a person confirms it{0.hint}: {0.subject}. Ask the user to do so there."
    ),
    Code.JOB_NOT_PROPOSED: "This job waits for no confirmation: {0.subject}",
    Code.JOB_TIME_PASSED: (
        "Its time passed before anybody confirmed it, so it did not run: {0.subject}. Change its schedule, or delete it."
    ),
    Code.JOB_RUN_UNDER_WAY: (
        "A run that was started by hand is under way: {0.subject}. Change the job when it has ended."
    ),
    Code.CONFIRMED_BY_PEOPLE: "Only a person can confirm a job that an agent has made or changed.",
    Code.RUN_NEEDS_CONFIRMATION: (
        "A person confirms what this token runs, so nothing can be started at once: schedule it as a job. {0.hint}"
    ),
    Code.IDEMPOTENCY_KEY_REUSED: (
        "The idempotency_key {0.subject!r} was used for another request: choose a new one."
    ),
    Code.IDEMPOTENCY_KEY_OF_DELETED_JOB: (
        "The job that the idempotency_key {0.subject!r} made was deleted: choose a new one."
    ),
    Code.CONFIRMATION_TOO_OLD: "This confirmation is too old: it is good for ten minutes.",
    Code.CONFIRMATION_UNKNOWN: "This is not a confirmation that Cronty has given.",
    Code.CONFIRMATION_OUTDATED: "The jobs or the request have changed since this was confirmed.",
    Code.TOO_MANY_MATCHES: "More than {0.limit} jobs match: choose fewer, by tag, task or query.",
    Code.JOBS_CHANGED: "Some of these jobs have changed meanwhile.",
    Code.CHANGE_ALREADY_UNDONE: "This change was already undone.",
    Code.LAST_CALL_NOT_UNDOABLE: (
        "Your last call cannot be undone: {0.state} ({0.subject}). Undo an earlier one by the number of its change."
    ),
    Code.STARTED_RUN_NOT_UNDOABLE: (
        "Your last call started a run of {0.subject}, and a run cannot be undone. Undo an earlier one by the number"
        " of its change."
    ),
    Code.JOB_CHANGED_AGAIN: "Changed again since then: {0.subject}",
    Code.CHANGED_SECRET_NOT_KEPT: (
        "A secret value was changed, which is not kept: edit the job and write it again."
    ),
    Code.PLAN_OUTDATED: "A job was changed meanwhile: look at the plan again.",
    Code.FILE_ALREADY_APPLIED: "Somebody else applied this file meanwhile: look at the plan again.",
    Code.RUN_NOT_FOUND: "Run not found: {0.subject}",
    Code.RUN_NOT_RUNNING: "Run {0.subject} is not running.",
    Code.RUN_NOT_A_COMMAND: "Only a command can be stopped while it runs.",
    Code.SLOT_PASSED: "It is too late to skip this run: its time has come.",
    Code.PROMPT_NOT_FOUND: "Prompt not found: {0.subject}",
    Code.PROMPT_ANSWERED: "Prompt already {0.state}: {0.subject}",
    Code.PROMPT_DISMISSED: "Prompt already {0.state}: {0.subject}",
    Code.PROMPT_NOT_WAITING: "Prompt already {0.state}: {0.subject}",
    Code.PROMPT_NOT_LEASED: "No agent holds prompt {0.subject}.",
    Code.PROMPT_HELD_BY_ANOTHER: "Another agent holds prompt {0.subject} until {0.until}.",
    Code.PROMPT_NOT_HELD: "You do not hold prompt {0.subject}: claim it first.",
    Code.PROMPT_LEASE_OVER: "Your lease on prompt {0.subject} is over: claim it again.",
    Code.PROMPT_COUNT_OUT_OF_RANGE: "limit: choose 1 to {0.limit}.",
    Code.PROMPT_ERROR_TOO_LONG: "error: too long",
    Code.NOTHING_ASKED: "No notification of this job has asked for an answer: {0.subject}",
    Code.ALREADY_ANSWERED: "Already {0.state}, by {0.reason} ({0.until}): {0.subject}",
    Code.ANSWERED_MEANWHILE: "Somebody has answered meanwhile: {0.subject}",
    Code.QUESTION_CLOSED: "No more reminders are sent: {0.subject}. {0.reason}",
    Code.LINK_USED: "This link was used before.",
    Code.LINK_UNKNOWN: "This link is not valid.",
    Code.LINK_EXPIRED: "This link has expired.",
    Code.TOO_MANY_ANSWERS: "This notification was answered {0.limit} times already.",
    Code.NO_ANSWER_TO_UNDO: "There is no answer to undo: {0.subject}",
    Code.AGENTS_STOPPED: "{0.reason} A person can start them again.",
    Code.AGENTS_NOT_STOPPED: "The agents are not stopped.",
    Code.AGENTS_OF_EVERYBODY: "Only staff can stop the agents of everybody, or start them again.",
    Code.GRANTS_BY_PEOPLE: "Only a person can give a job permissions, or change what it does while it has some{0.hint}.",
    Code.APPROVALS_BY_PEOPLE: "Only a person can answer what an agent asks.",
    Code.APPROVAL_NOT_FOUND: "There is no such approval: it may have been deleted with its run.",
    Code.APPROVAL_OVER: "This was {0.state}.",
    Code.APPROVAL_CHANGED: "What is asked is not what was shown. Look at it again.",
    Code.APPROVAL_HAS_NO_GRANT: "No rule can always allow this: allow it once, or deny it.",
    Code.AGENTS_STARTED_BY_PEOPLE: "Only a person can start the agents again.",
    Code.TOO_MANY_JOBS: "at most {0.limit:,} active jobs; stop or delete some first",
    Code.TOO_MANY_PLANNED_RUNS: (
        "at most {0.limit:,} planned runs a minute: this schedule would add {0.added:,.4g} to the {0.planned:,.4g}"
        " of your active jobs; choose a longer interval, or stop or delete some jobs first"
    ),
    Code.TOO_MANY_NEW_JOBS: "at most {0.limit} new jobs a minute; create fewer at once",
    Code.TOO_MANY_WAITING_RUNS: "{0.limit} runs of this job are waiting already.",
    Code.TOO_MANY_TOKENS: "at most {0.limit} tokens; revoke one first",
    Code.TOO_MANY_SECRETS: "There are {0.limit} secrets already: delete one first.",
    Code.TOO_MANY_CALENDARS: "There are {0.limit} calendars already: delete one first.",
    Code.JOBS_CREATED_TOO_FAST: "at most {0.limit} new jobs a minute; try again in {0.seconds} seconds",
    Code.RUNS_STARTED_TOO_FAST: "at most {0.limit} runs by hand a minute; try again in {0.seconds} seconds",
    Code.NOTIFICATIONS_SENT_TOO_FAST: (
        "at most {0.limit} notifications sent at once a minute; try again in {0.seconds} seconds"
    ),
    Code.CALLS_TOO_FAST: "at most {0.limit} calls a minute; try again in {0.seconds} seconds",
    Code.PING_NOT_FOUND: "No job has this ping address.",
    Code.PING_SLUG_AMBIGUOUS: "Several jobs are called {0.subject} in ping addresses.",
    Code.PING_KEY_CHANGED: "The ping key was already changed: this is the new one.",
    Code.PING_KEY_TAKEN: "Somebody else here has this ping key: change it in healthchecks first.",
    Code.PING_KEY_KEPT: "Your ping key is another one, and addresses with names need that of the checks: replace yours, which stops your addresses with names, or take over checks with UUIDs only.",
    Code.PING_KEYS_DIFFER: "These checks are from several projects, each with a ping key of its own: take over one project for each person.",
    Code.TRIGGER_NOT_FOUND: "No job has this trigger address.",
    Code.TRIGGER_SIGNATURE_WRONG: "{0.reason}",
    Code.TRIGGER_REPLAYED: "This message was received before; it started run {0.subject}.",
    Code.TRIGGER_LOOP: "Stopped: the job would have started itself; run {0.subject} says so.",
    Code.TOKEN_NOT_FOUND: "Token not found: {0.subject}",
    Code.TOKEN_OF_SUPERIOR: "Only its owner can revoke it, because they have more rights than you.",
    Code.TOKEN_ALREADY_REVOKED: "This token is already revoked.",
    Code.TOKEN_OF_APP: "A connected app renews its tokens itself: disconnect it instead.",
    Code.USER_IS_SUPERIOR: "You can't do this for a user with more rights than you.",
    Code.SECRET_NOT_FOUND: "Secret not found: {0.subject}",
    Code.CALENDAR_NOT_FOUND: "Calendar not found: {0.subject}",
    Code.INCIDENT_NOT_FOUND: "Alert not found: {0.subject}",
    Code.INCIDENT_OVER: "That is over already: alert {0.subject}.",
    Code.CALENDAR_IN_USE: "Jobs use the calendar {0.subject}: {0.listed_matches}. Take it out of them first.",
    Code.TOKENS_HIDDEN_FROM_AGENTS: "Agents cannot create tokens, or revoke those of others.",
    Code.SECRETS_HIDDEN_FROM_AGENTS: "Agents cannot see or change secrets.",
    Code.SECRETS_OF_INSTALLATION: "Only superusers manage the secrets of the installation.",
    Code.CHANNEL_NOT_FOUND: "Channel not found: {0.subject}",
    Code.CHANNEL_IN_USE: (
        "{0.limit} jobs use the channel {0.subject}, like {0.listed_matches}: let them use another one first."
    ),
    Code.CHANNEL_CODE_WRONG: "This is not the code for {0.subject}. Copy it from the newest message.",
    Code.ALERTS_BY_PEOPLE: "Only a person can snooze an alert.",
    Code.CHANNELS_BY_PEOPLE: "Agents cannot see or change channels; jobs refer to them by name.",
    Code.TOO_MANY_CHANNELS: "There are {0.limit} channels already: delete one first.",
    Code.EVENT_SUBSCRIPTION_NOT_FOUND: "Subscription not found: {0.subject}",
    Code.EVENT_SUBSCRIPTION_OFF: "{0.subject} is switched off: switch it on first.",
    Code.EVENTS_BY_PEOPLE: "Agents cannot see or change subscriptions to events.",
    Code.TOO_MANY_EVENT_SUBSCRIPTIONS: "There are {0.limit} subscriptions already: delete one first.",
    Code.DELIVERY_NOT_FOUND: "Delivery not found: {0.subject}",
    Code.DELIVERY_UNDER_WAY: "Delivery {0.subject} has not ended yet.",
    Code.SECRET_KEY_CHANGED: (
        "The secret key was changed on another host: the operator must give it to this one first."
    ),
    Code.DATABASE_UNAVAILABLE: TRY_AGAIN,
}
