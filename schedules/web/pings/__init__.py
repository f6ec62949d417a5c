"""The ping endpoint, compatible with clients of healthchecks."""
