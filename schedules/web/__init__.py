"""The web pages: views, forms and health checks."""
