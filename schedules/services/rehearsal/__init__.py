"""Rehearsals: what the coming days will bring if nothing changes, planned by the rules of the engine and never stored."""
