"""A server that takes 100 ms for every request and answers as ntfy does; prints its port."""

import asyncio

ANSWER = b'{"id":"bench","event":"message","topic":"bench"}'
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
DELAY = 0.1


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            await asyncio.sleep(DELAY)
            writer.write(HEAD + ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.wait_for(server.serve_forever(), 600)


if __name__ == "__main__":
    asyncio.run(main())
