"""Files of the operator, such as commands.toml and runners.toml: parse, watch, and keep their last good content."""
