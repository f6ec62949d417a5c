"""The web server: guards around the ASGI app, bounded connections, threads, and trusted proxies."""
