"""Ping addresses: what clients of healthchecks send, and the answers that they expect."""
