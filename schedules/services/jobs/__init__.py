"""Services for jobs: create, edit, pause, delete and restore them, one by one or in bulk."""
