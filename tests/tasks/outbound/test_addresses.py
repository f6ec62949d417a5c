"""Addresses that outbound requests may reach."""

import pytest

from schedules.tasks.outbound import OutboundError, Refused, problem_with_url
from tests.tasks.outbound.conftest import PUBLIC, get

PRIVATE_HOSTS = [
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1",
    "0177.0.0.1", "017700000001", "0x7f.0x0.0x0.0x1", "0177.0x0.0.1", "0", "0.0.0.0", "0.1.2.3",  # noqa: S104
    "10.0.0.1", "10.255.255.255", "0x0a000001", "012.0.0.1", "10.1",
    "100.64.0.1", "100.127.255.254", "169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe",
    "172.16.0.1", "172.31.255.254", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "192.168.1.1", "3232235777", "192.168.257", "198.18.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]",
    "[::ffff:0:7f00:1]", "[::127.0.0.1]", "[::10.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]", "[100::1]", "[2001::1]", "[2001:10::1]", "[2001:db8::1]", "[2002:7f00:1::]",
    "[2002:a00:1::1]", "[3fff::1]", "[5f00::1]", "[fc00::1]", "[fd12:3456:789a::1]", "[fe80::1]",
    "[fe80::1%25lo]", "[fe80::1%lo]", "[fec0::1]", "[ff02::1]", "[ff0e::1]",
    "①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1",
]  # fmt: skip


PRIVATE_ADDRESSES = [
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",  # noqa: S104
    "100.64.0.1", "100.127.255.254", "169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.254",
    "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:7f00:1", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
    "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd12:3456:789a::1", "fe80::1",
    "fe80::1%1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip


PUBLIC_ADDRESSES = [
    "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255",
    "198.20.0.0", "223.255.255.254", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1",
    "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip


def test_request_to_a_private_host_is_refused(sink, wire, names):
    for host in PRIVATE_HOSTS:
        with pytest.raises(Refused, match="operator can allow it"):
            get(sink.url(host=host))

        assert (sink.connections, wire, names["asked"]) == (0, [], [])


def test_private_host_is_reported_before_a_job_is_stored():
    for host in PRIVATE_HOSTS:
        problem = problem_with_url(f"https://{host}/hook")

        assert problem is not None
        assert "not a public address" in problem


def test_name_that_resolves_to_a_private_address_is_refused(sink, wire, names):
    for address in PRIVATE_ADDRESSES:
        names["evil.test"] = [[address]]

        with pytest.raises(Refused, match=r"^evil\.test is not a public address") as caught:
            get(sink.url(host="evil.test"))

        assert address not in str(caught.value)
        assert (sink.connections, wire) == (0, [])


def test_name_with_one_private_address_among_public_ones_is_refused(sink, wire, names):
    for address in PRIVATE_ADDRESSES:
        names["evil.test"] = [[PUBLIC, address]]

        with pytest.raises(Refused):
            get(sink.url(host="evil.test"))

        assert (sink.connections, wire) == (0, [])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1"])
def test_rebinding_name_is_resolved_once_and_the_checked_address_is_used(address, sink, wire, names):
    names["evil.test"] = [[PUBLIC], [address]]

    with pytest.raises(OutboundError, match="not in a test"):
        get(sink.url(host="evil.test"))

    assert (sink.connections, wire, names["asked"]) == (0, [PUBLIC], ["evil.test"])


def test_names_of_this_machine_are_refused(sink, wire, names):
    for name in ["localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "ip6-localhost"]:
        names[name.lower()] = [["127.0.0.1"]]

        with pytest.raises(Refused):
            get(sink.url(host=name))

        assert (sink.connections, wire) == (0, [])


def test_name_of_this_machine_is_reported_before_a_job_is_stored(settings):
    for host in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "localhost.localdomain",
        "ip6-localhost",
        "127.0.0.1.",
    ]:
        settings.CRONTY_OUTBOUND_ALLOW = []
        assert "not a public address" in (problem_with_url(f"http://{host}:8080/") or "")

        settings.CRONTY_OUTBOUND_ALLOW = [f"{host.rstrip('.')}:8080"]
        assert problem_with_url(f"http://{host}:8080/") is None


def test_public_address_is_allowed():
    for address in PUBLIC_ADDRESSES:
        host = f"[{address}]" if ":" in address else address

        assert problem_with_url(f"https://{host}/hook") is None


@pytest.mark.parametrize(
    "entry",
    ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:{port}", "service.test", "SERVICE.test", "service.test:{port}"],
)
def test_operator_can_allow_a_private_service(entry, sink, wire, names, settings):
    names["service.test"] = [["127.0.0.1"]]
    settings.CRONTY_OUTBOUND_ALLOW = ["unrelated.test", entry.format(port=sink.port)]

    reply = get(sink.url(host="service.test"))

    assert reply.status == 200
    assert sink.requests[0].headers["host"] == f"service.test:{sink.port}"
    assert problem_with_url(sink.url(host="service.test")) is None


def test_allow_list_entry_for_another_service_does_not_match(sink, wire, names, settings):
    names["service.test"] = [["127.0.0.1"]]
    for entry in [
        "127.0.0.2",
        "10.0.0.0/8",
        "127.0.0.1:1",
        "service.test:1",
        "other.test",
        "test",
        "::1",
        "",
    ]:
        settings.CRONTY_OUTBOUND_ALLOW = [entry]

        with pytest.raises(Refused):
            get(sink.url(host="service.test"))

        assert (sink.connections, wire) == (0, [])


def test_ipv6_entry_with_a_port_allows_only_that_port(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["[fd00::1]:8080"]

    assert problem_with_url("http://[fd00::1]:8080/") is None
    assert problem_with_url("http://[fd00::1]/") is not None


def test_allowed_ipv4_address_is_allowed_in_its_ipv6_mapped_form(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["10.0.0.0/8"]

    assert problem_with_url("http://[::ffff:10.1.2.3]/") is None


@pytest.mark.parametrize("host", ["unknown.test", "a..b", f"{'a' * 64}.test"])
def test_unresolvable_name_is_retryable(host, names):
    with pytest.raises(OutboundError, match="DNS lookup failed") as caught:
        get(f"http://{host}/")

    assert caught.value.retryable


def test_private_address_at_the_end_of_a_long_answer_is_refused(sink, wire, names):
    names["evil.test"] = [[f"1.1.1.{number}" for number in range(1, 40)] + ["127.0.0.1"]]

    with pytest.raises(Refused):
        get(sink.url(host="evil.test"))

    assert (sink.connections, wire) == (0, [])
