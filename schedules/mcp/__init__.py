"""The MCP server, through which agents use Cronty."""
