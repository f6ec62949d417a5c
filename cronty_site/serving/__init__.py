"""The web server: guards around the ASGI app, bounded connections, and trust in proxies."""
