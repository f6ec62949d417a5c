"""`cronty` on machines without an installation: it talks to one over HTTP, and does not import Django."""
