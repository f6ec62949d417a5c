"""Apps that connect by OAuth, against a running server: the official client, and clients that cheat."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.tasks.outbound.test_addresses import PRIVATE_HOSTS
from tests.waiting import PATIENCE
from tests.web.oauth_server import BACK, METADATA, Server, back_with, hidden, serving_oauth


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving_oauth(tmp_path_factory.mktemp("oauth")) as server:
        yield server


@pytest.fixture
def registered(server: Server) -> Callable[[str], httpx2.Response]:
    """Return a function with which a client changes its registration."""
    known = server.register().json()
    headers = {"Authorization": f"Bearer {known['registration_access_token']}"}

    def change(body: str) -> httpx2.Response:
        return server.app.put(known["registration_client_uri"], content=body, headers=headers)

    return change


class Memory:
    """The token storage of the official client."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def test_official_client_finds_its_way_from_the_address_alone(server, monkeypatch):
    # After that long the client would take a slow server for one of the legacy era.
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", PATIENCE)
    memory, pages = Memory(), []

    async def redirect(address: str) -> None:
        pages.append(await asyncio.to_thread(server.browser.get, address))

    async def callback() -> AuthorizationCodeResult:
        answer = await asyncio.to_thread(server.decide, pages[0])
        found = back_with(answer)
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    async def talk() -> tuple[list[str], Any]:
        access = OAuthClientProvider(
            f"{server.address}/mcp",
            OAuthClientMetadata(client_name="Official", redirect_uris=[BACK], scope=None),
            memory,
            redirect,
            callback,
        )
        async with httpx2.AsyncClient(auth=access, timeout=PATIENCE) as http:
            transport = streamable_http_client(f"{server.address}/mcp", http_client=http)
            async with Client(transport) as client:
                listed = await client.list_tools()
                created = await client.call_tool(
                    "schedule", {"prompt": "Read my inbox", "at": "tomorrow at 9:00"}
                )
                return [tool.name for tool in listed.tools], created

    names, created = asyncio.run(talk())

    assert "list_jobs" in names
    assert not created.is_error, created
    assert "Official" in pages[0].text
    assert "127.0.0.1:9999" in pages[0].text
    actor = "from schedules.models import Event; print(Event.objects.filter(verb='create').get().actor)"
    assert server.run(actor) == "Official"


def test_metadata_names_this_server_and_what_it_accepts(server):
    resource = server.app.get("/.well-known/oauth-protected-resource/mcp").json()
    metadata = server.app.get("/.well-known/oauth-authorization-server").json()
    refused = server.app.post("/mcp", json={})

    assert resource["resource"] == f"{server.address}/mcp"
    assert resource["authorization_servers"] == [server.address]
    assert resource["scopes_supported"] == ["read", "write"]
    assert metadata["issuer"] == server.address
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["client_id_metadata_document_supported"] is True
    assert refused.status_code == 401
    assert f"{server.address}/.well-known/oauth-protected-resource/mcp" in refused.headers["www-authenticate"]


def test_person_gives_less_than_the_app_asks_for(server):
    _, tokens = server.connect(access="read", tools="notifications")

    names = server.tools(tokens["access_token"])

    assert tokens["scope"] == "read"
    assert "list_scheduled_notifications" in names
    assert "schedule_cron_notification" not in names
    assert "list_jobs" not in names


def test_app_that_asked_to_read_is_offered_nothing_more(server):
    client_id = server.client()
    page = server.ask(client_id, scope="read")

    answer = server.decide(page, access="read write")

    assert answer.status_code == 422
    assert '<option value="read write"' not in page.text


def test_request_with_a_foreign_part_stays_here(server):
    client_id = server.client()
    for asked in (
        {"redirect_uri": "https://evil.example/back"},
        {"redirect_uri": f"{BACK}/other"},
        {"redirect_uri": "http://["},
        {"client_id": "unknown"},
        {"client_id": "https://127.0.0.1/client.json"},
        {"resource": "https://other.example/mcp"},
    ):
        answer = server.ask(**{"client_id": client_id} | asked)

        assert answer.status_code == 400, asked
        assert "cannot be connected" in answer.text
        assert ".." not in answer.text


def test_weaker_request_is_refused(server):
    before = server.apps()
    for asked in [
        {"code_challenge": "", "code_challenge_method": ""},
        {"code_challenge_method": "plain"},
        {"scope": "admin"},
        {"scope": "write"},
    ]:
        page = server.ask(server.client(), **asked)
        answer = page if page.is_redirect else server.decide(page)

        assert answer.status_code == 302
        assert back_with(answer)["error"] in ("invalid_request", "invalid_scope")
        assert server.apps() == before


def test_code_works_once_for_its_client_with_its_verifier(server):
    client_id, other = server.client(), server.client()
    code = server.code(client_id)

    assert server.exchange(client_id, code=code, code_verifier="w" * 50).status_code == 400
    assert server.exchange(other, code=code).status_code in (400, 401)
    code = server.code(client_id)
    assert server.exchange(client_id, code=code).status_code == 200
    assert server.exchange(client_id, code=code).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("is_renewed", [False, True])
def test_code_that_is_sent_again_ends_the_access_it_gave(server, is_renewed):
    client_id = server.client()
    code = server.code(client_id)
    tokens = server.exchange(client_id, code=code).json()
    if is_renewed:
        tokens = server.exchange(
            client_id, grant_type="refresh_token", refresh_token=tokens["refresh_token"]
        ).json()
    assert isinstance(server.tools(tokens["access_token"]), list)

    assert server.exchange(client_id, code=code).status_code == 400

    assert server.tools(tokens["access_token"]) == 401
    refreshed = server.exchange(client_id, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert refreshed.status_code == 400


def test_wrong_secret_of_a_client_costs_next_to_nothing(server):
    """Anybody may send one, and a hash that is made for passwords takes a second."""
    rounds = server.run(
        "import json; from base64 import b64encode; from unittest.mock import patch;"
        "from django.contrib.auth import hashers; from django.test import Client; c = Client(HTTP_HOST='127.0.0.1');\n"
        "for method in ('none', 'client_secret_post'):\n"
        f"    form = {METADATA!r} | {{'token_endpoint_auth_method': method}}\n"
        "    with patch.object(hashers, 'pbkdf2', wraps=hashers.pbkdf2) as slow:\n"
        "        known = c.post('/oauth/register/', json.dumps(form), 'application/json').json()['client_id']\n"
        "        basic = {'Authorization': 'Basic ' + b64encode(f'{known}:wrong'.encode()).decode()}\n"
        "        wrong = {'client_id': known, 'client_secret': 'wrong', 'token': 'a', 'code': 'a', 'grant_type': 'authorization_code'}\n"
        "        for path in ('/oauth/token/', '/oauth/revoke/'):\n"
        "            assert c.post(path, wrong, headers=basic).status_code == 401\n"
        "    print(sum(call.args[2] for call in slow.call_args_list))"
    )

    assert [0 < int(each) < 20 for each in rounds.split()] == [True, True]


def test_refresh_token_rotates_and_a_stolen_one_ends_the_access(server):
    client_id, tokens = server.connect()

    def refresh(token: str) -> httpx2.Response:
        return server.exchange(client_id, grant_type="refresh_token", refresh_token=token)

    renewed = refresh(tokens["refresh_token"]).json()
    assert isinstance(server.tools(renewed["access_token"]), list)

    assert refresh(tokens["refresh_token"]).status_code == 400
    assert refresh(renewed["refresh_token"]).status_code == 400


def test_revoked_app_is_shut_out_and_stays_out_after_a_new_consent(server):
    client_id, tokens = server.connect()
    newest, page = server.apps()[0], server.browser.get("/connect/").text

    answer = server.browser.post(newest, data={"csrfmiddlewaretoken": hidden(page)["csrfmiddlewaretoken"]})

    assert answer.is_redirect
    assert server.tools(tokens["access_token"]) == 401
    refreshed = server.exchange(client_id, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert refreshed.status_code == 400
    server.code(client_id)
    assert server.tools(tokens["access_token"]) == 401
    again = server.exchange(client_id, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert again.status_code == 400


def test_token_is_good_for_this_audience_alone_and_ends(server):
    _, tokens = server.connect()
    before = (
        "from oauth2_provider.models import AccessToken as T; from django.utils import timezone as z;"
        "t = T.objects.exclude(user=None).latest('pk');"
    )

    for change, status in (
        ("t.resource = ['https://other.example/mcp']", 401),
        ("t.resource = []", 401),
        (f"t.resource = ['{server.address}/mcp']", 200),
        ("t.expires = z.now()", 401),
    ):
        server.run(f"{before} {change}; t.save()")

        assert (server.tools(tokens["access_token"]) == 401) == (status == 401), change


def test_stream_of_an_app_ends_with_its_access_token(server):
    _, tokens = server.connect()

    valid = server.run(
        "from schedules.mcp.auth import _verify, caller_of; from schedules.mcp.subscriptions import _is_valid;"
        "from oauth2_provider.models import AccessToken as T; from django.utils import timezone as z;"
        f"caller = caller_of(_verify('{tokens['access_token']}')); print(_is_valid(caller));"
        "T.objects.filter(pk=caller.access_id).update(expires=z.now()); print(_is_valid(caller))"
    )

    assert valid.split() == ["True", "False"]


def test_only_checksums_are_stored(server):
    _, tokens = server.connect()

    stored = server.run(
        "from oauth2_provider.models import AccessToken, RefreshToken;"
        "print([*AccessToken.objects.values_list('token', flat=True), *RefreshToken.objects.values_list('token', flat=True)])"
    )

    assert tokens["access_token"] not in stored
    assert tokens["refresh_token"] not in stored


def test_bad_registration_is_refused(server, registered):
    for more, status in [
        ({"redirect_uris": ["http://evil.example/back"]}, 400),
        ({"redirect_uris": ["javascript:alert(1)"]}, 400),
        ({"redirect_uris": []}, 400),
        ({"redirect_uris": ["http://["]}, 400),
        ({"redirect_uris": [f"{BACK} https://evil.example/back"]}, 400),
        ({"redirect_uris": [f"{BACK}\x1dhttps://evil.example/back"]}, 400),
        ({"redirect_uris": ["https://a.example;script-src/back"]}, 400),
        ({"redirect_uris": ["https://münchen.example/back"]}, 400),
        ({"redirect_uris": ["https://claude.ai@evil.example/back"]}, 400),
        ({"grant_types": ["client_credentials"]}, 400),
        ({"grant_types": ["implicit"]}, 400),
        ({"grant_types": ["password", "refresh_token"]}, 400),
        ({"client_name": "x" * 9000}, 413),
        ({"client_name": None}, 400),
        ({"client_name": "\ud800"}, 400),
        ({"client_name": "a\x00b"}, 400),
    ]:
        assert server.register(**more).status_code == status, more
        assert registered(json.dumps(METADATA | more)).status_code == status, more


def test_registration_with_deep_json_is_refused(server, registered):
    deep = "[" * 4000 + "]" * 4000

    assert server.app.post("/oauth/register/", content=deep).json()["error"] == "invalid_client_metadata"
    assert registered(deep).json()["error"] == "invalid_client_metadata"


def test_form_with_a_nul_is_refused(server):
    for path, form in [
        ("/oauth/token/", {"grant_type": "refresh_token", "refresh_token": "\x00", "client_id": "a"}),
        ("/oauth/token/", {"grant_type": "authorization_code", "code": "a", "client_id": "\x00"}),
        ("/oauth/revoke/", {"token": "\x00", "client_id": "a"}),
    ]:
        answer = server.app.post(path, data=form)

        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        assert "NUL" in answer.json()["error_description"]


def test_consent_with_a_nul_or_a_long_challenge_is_refused(server):
    client_id, before = server.client(), server.apps()

    assert server.decide(server.ask(client_id), client_id="\x00").status_code == 400
    long = server.decide(server.ask(client_id, code_challenge="a" * 300))

    assert long.status_code == 422
    assert "The code challenge of the app is too long." in long.text
    assert server.apps() == before


def test_resource_with_a_slash_is_this_one_at_every_step(server):
    client_id, slashed = server.client(), f"{server.address}/mcp/"
    code = back_with(server.decide(server.ask(client_id, resource=slashed)))["code"]

    tokens = server.exchange(client_id, code=code, resource=slashed).json()
    renewed = server.exchange(
        client_id, grant_type="refresh_token", refresh_token=tokens["refresh_token"], resource=slashed
    ).json()

    assert isinstance(server.tools(renewed["access_token"]), list)


def test_address_that_is_not_plain_does_not_reach_the_policy(server):
    for host in ["a.example;script-src *", "a.example,b", "münchen.example", "a@b.example"]:
        refused = server.ask(server.client(), redirect_uri=f"https://{host}/back")

        assert refused.status_code == 400
        assert "form-action 'self';" in f"{refused.headers['content-security-policy']};"
        assert "script-src" not in refused.headers["content-security-policy"]


def test_flood_of_registrations_from_an_address_keeps_nobody_else_out(server):
    # One client of IPv6 has many addresses.
    statuses = [server.register(address=f"2001:db8:ffff::{number}").status_code for number in range(31)]

    assert statuses == [201] * 30 + [429]
    assert server.register().status_code == 201


def test_clients_that_nobody_connects_make_room_for_others(server):
    connected, _ = server.connect()
    first, second = server.client(), server.client()

    def left(change: str) -> list[str]:
        return server.run(
            "from oauth2_provider.models import Application as A; from django.utils import timezone as z;"
            "import datetime as d; from schedules.services.people import connected_apps;"
            f"{change}; assert connected_apps.may_register('192.0.2.1');"
            "print(*A.objects.order_by('pk').values_list('client_id', flat=True))"
        ).split()

    newest = left("connected_apps.MAX_UNUSED_CLIENTS = 2")
    assert connected in newest
    assert first not in newest
    assert newest[-1] == second

    recent = left("A.objects.update(created=z.now() - d.timedelta(days=2))")
    assert connected in recent
    assert second not in recent


def resolve(server: Server, *documents: tuple[str, str]) -> list[str]:
    """Look for the clients with these ids, whose documents have these texts; return their names, or "None" each."""
    return server.run(
        "from types import SimpleNamespace as N; from oauth2_provider.cimd import resolve_cimd_application as resolve;"
        "from schedules.tasks import outbound\n"
        f"for client_id, document in {documents!r}:\n"
        "    async def send(method, url, **more):\n"
        "        return outbound.Reply(200, {}, document, False)\n"
        "    outbound.send = send\n"
        "    print(resolve(client_id, N(headers={'REMOTE_ADDR': '192.0.2.1'})))"
    ).splitlines()


def test_document_of_a_client_registers_it(server):
    address = "https://assistant.example/client.json"

    assert resolve(server, (address, json.dumps(METADATA | {"client_id": address}))) == ["Assistant"]
    assert "Connect Assistant?" in server.ask(address).text


def test_bad_document_registers_no_client(server):
    address = "https://a.example/c"
    documents = [
        (address, METADATA | {"client_id": "https://b.example/c"}),
        (address, {"client_id": address} | METADATA | {"grant_types": ["implicit"]}),
        (address, {"client_id": address} | METADATA | {"redirect_uris": [f"{BACK} https://evil.example/"]}),
        (address, {"client_id": address} | METADATA | {"redirect_uris": ["https://a.example;script-src/"]}),
        (address, {"client_id": address} | METADATA | {"client_name": "x" * 9000}),
        (address, [METADATA]),
        *((wrong, {"client_id": wrong} | METADATA) for wrong in ("https://a.example/../c", f"{address}#d")),
        ("https://a.example", {"client_id": "https://a.example"} | METADATA),
    ]

    names = resolve(server, *((client_id, json.dumps(document)) for client_id, document in documents))

    assert names == ["None"] * len(documents)


def test_document_is_fetched_from_public_addresses_alone(server):
    answers = server.run(
        "from oauth2_provider.cimd import CIMDError\n"
        "from oauth2_provider.settings import oauth2_settings\n"
        f"for host in {PRIVATE_HOSTS!r}:\n"
        "    try: oauth2_settings.CIMD_METADATA_FETCHER().fetch(f'https://{host}/client.json')\n"
        "    except CIMDError as error: print(error)"
    ).splitlines()

    assert len(answers) == len(PRIVATE_HOSTS)
    assert [answer for answer in answers if "not a public address" not in answer] == []
