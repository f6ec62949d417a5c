"""The tools that agents call: one module per family, all on top of the services."""
