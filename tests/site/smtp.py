"""An SMTP server on loopback that keeps the messages it gets."""

import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import TracebackType
from typing import Self


class _Session(StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        self._say("220 sink")
        while line := self.rfile.readline():
            match line.split()[0].upper():
                case b"DATA":
                    self._say("354 go on")
                    self._keep_message()
                    self._say("250 kept")
                case b"QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 sink")

    def _keep_message(self) -> None:
        lines = list(iter(self.rfile.readline, b".\r\n"))
        message = message_from_bytes(b"".join(lines), _class=EmailMessage, policy=policy.default)
        self.server.messages.append(message)

    def _say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())


class _Server(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.messages: list[EmailMessage] = []


class MailSink:
    """Run the server for the length of a `with` block."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def messages(self) -> list[EmailMessage]:
        return self._server.messages

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
