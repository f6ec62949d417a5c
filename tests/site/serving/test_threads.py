"""Threads that requests leave to later ones."""

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.core.asgi import get_asgi_application
from django.db import connection

from cronty_site.serving import threads
from cronty_site.serving.threads import ReusedThreads
from tests.waiting import PATIENCE, wait_for


def kept() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("request")}


def test_request_uses_the_thread_and_the_connection_of_the_one_before():
    used = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        used.append(await sync_to_async(lambda: (threading.get_ident(), id(connection.connection)))())
        used.append(await sync_to_async(lambda: (threading.get_ident(), id(connection.connection)))())

    async def scenario():
        application = ReusedThreads(app)
        for _ in range(3):
            await application({}, None, None)

    asyncio.run(scenario())

    assert len(used) == 6
    assert len(set(used)) == 1


def test_requests_at_once_have_a_thread_each_and_a_few_are_kept(monkeypatch):
    monkeypatch.setattr(threads, "MAX_IDLE", 2)
    before = kept()
    all_here = threading.Barrier(5)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await sync_to_async(all_here.wait)()

    async def scenario():
        application = ReusedThreads(app)
        await asyncio.gather(*(application({}, None, None) for _ in range(5)))
        return application

    application = asyncio.run(scenario())

    wait_for(lambda: len(kept() - before) <= 2)
    assert len(kept() - before) == len(application._idle) == 2


def test_request_that_fails_leaves_its_thread():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await sync_to_async(threading.get_ident)()
        raise LookupError

    application = ReusedThreads(app)

    for _ in range(2):
        with pytest.raises(LookupError):
            asyncio.run(application({}, None, None))

    assert len(application._idle) == 1


def test_middleware_stays_in_the_thread_of_the_request(monkeypatch):
    calls = []
    call = SyncToAsync.__call__

    async def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(self.func)
        return await call(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", counted)
    headers = [(b"host", b"testserver")]
    scope = {"type": "http", "method": "GET", "path": "/jobs/new/", "query_string": b"", "headers": headers}

    async def scenario():
        page = ApplicationCommunicator(ReusedThreads(get_asgi_application()), scope)
        await page.send_input({"type": "http.request"})
        start = await page.receive_output(timeout=PATIENCE)
        await page.wait(timeout=PATIENCE)
        return start

    answer = asyncio.run(scenario())

    assert answer["status"] == 302
    # The start of the request, the request, its view, and its end; each middleware would add two.
    assert len(calls) <= 6
