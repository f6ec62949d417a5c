"""What people and agents do with jobs: create, edit, pause, delete, restore, one by one or in bulk."""
