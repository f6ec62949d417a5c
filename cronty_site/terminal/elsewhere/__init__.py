"""What `cronty` does on machines without an installation: it asks one over HTTP. Nothing here imports Django."""
