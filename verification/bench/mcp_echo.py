"""The smallest server on the SDK, with one tool that echoes a text: over HTTP on a port, or over stdio without one."""

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("echo", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    return text


def main() -> None:
    if len(sys.argv) == 1:
        server.run("stdio")
    else:
        app = server.streamable_http_app(stateless_http=True)
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", log_level="warning")


if __name__ == "__main__":
    main()
