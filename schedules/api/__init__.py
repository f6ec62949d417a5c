"""The HTTP API: routes, schemas and the OpenAPI document; all rules are in the services."""
