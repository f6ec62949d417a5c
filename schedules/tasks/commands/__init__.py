"""Commands: programs that the operator lists in commands.toml, which jobs run by name with typed arguments."""
