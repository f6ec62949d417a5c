"""Form fields for the arguments of tasks, shared by the pages and the admin."""
