"""The tools that an agent can be given, as a person chooses them."""

# The few tools first: models choose better among them, and their descriptions cost less.
TOOLS = {
    "core": "Everyday tools",
    "": "All tools",
    "notifications": "Reminders and notifications only",
    "prompts": "Scheduled prompts only",
    "jobs": "Jobs only",
}
