"""A server that records every request, takes 100 ms for it, or as many seconds as it is told, and answers as ntfy does.

It prints its port.
"""

import asyncio
import sys
from functools import partial

from verification.bench import recorder

ANSWER = b'{"id":"bench","event":"message","topic":"bench"}'
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
DELAY = 0.1
LABEL = "request"


async def serve(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            recorder.record(LABEL)
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            if delay:
                await asyncio.sleep(delay)
            writer.write(HEAD + ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(delay: float) -> None:
    server = await asyncio.start_server(partial(serve, delay), "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.wait_for(server.serve_forever(), 600)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if sys.argv[1:] else DELAY))
