"""The MCP server: what agents can do."""
