"""The tools that an agent can be given, as a person chooses them."""

# The few tools first: models choose better among them, and their descriptions cost less.
TOOLS = {
    "core": "the everyday tools",
    "": "All tools",
    "notifications": "only reminders and notifications",
    "prompts": "only scheduled prompts",
    "jobs": "only jobs",
}
