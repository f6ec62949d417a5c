"""Files that describe jobs: YAML that `cronty apply` reads and `cronty export` writes, and crontabs."""
