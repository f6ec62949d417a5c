"""Commands: programs that the operator defines in commands.toml, and that jobs run by name with typed arguments."""
