"""The operator's back office."""
