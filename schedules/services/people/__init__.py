"""People: their profiles, tokens, connected apps and secrets."""
