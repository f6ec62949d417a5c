"""The routes of the API, one module per kind of resource."""
