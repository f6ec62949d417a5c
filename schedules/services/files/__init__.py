"""Files that describe jobs: YAML for `cronty apply` and `cronty export`, crontabs, and checks of healthchecks."""
