"""Files of the operator that are read again when they change: commands.toml and runners.toml."""
