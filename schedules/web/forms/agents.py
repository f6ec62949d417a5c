"""What a person who connects an agent can choose: its tools, and for how long."""

# The few tools first: models choose better among them, and their descriptions cost less.
TOOLS = {
    "core": "Everyday tools",
    "": "All tools",
    "notifications": "Reminders and notifications only",
    "prompts": "Scheduled prompts only",
    "jobs": "Jobs only",
}
# In days.
LIFETIMES = {"30": "30 days", "90": "90 days", "365": "1 year", "": "No expiry"}
