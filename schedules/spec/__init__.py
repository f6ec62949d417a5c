"""What a job is to people and programs: its fields, described once, and one reader for each kind of value."""
