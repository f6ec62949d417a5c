"""When a job runs: pure functions of a schedule and a moment, without Django, database or clock."""
