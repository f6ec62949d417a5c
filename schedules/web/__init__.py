"""The web pages, and what programs read beside them: pings, metrics, health checks, OAuth."""
