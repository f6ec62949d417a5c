"""Destinations: which entries are read, and what they include."""

from ipaddress import ip_address

import pytest

from schedules.tasks.outbound.destinations import parse_destination


def test_entry_includes_its_destination():
    for entry, host, port, address in [
        ("10.0.0.0/8", "a.test", 80, "10.1.2.3"),
        ("fd00::/8", "a.test", 80, "fd00::1"),
        ("192.168.1.5", "a.test", 80, "192.168.1.5"),
        ("192.168.1.5:8080", "a.test", 8080, "192.168.1.5"),
        ("::1", "a.test", 80, "::1"),
        ("[fd00::1]:8080", "fd00::1", 8080, "fd00::1"),
        ("[fd00::1]", "fd00::1", 8080, "fd00::1"),
        ("NAS.local", "nas.LOCAL.", 80, "10.0.0.1"),
        ("my_nas:8080", "my_nas", 8080, "10.0.0.1"),
        ("server-1.example", "server-1.example", 443, "10.0.0.1"),
    ]:
        assert parse_destination(entry).includes(host, port, ip_address(address))


def test_entry_does_not_include_another_destination():
    for entry, host, port, address in [
        ("10.0.0.0/8", "a.test", 80, "11.0.0.1"),
        ("192.168.1.5:8080", "a.test", 80, "192.168.1.5"),
        ("nas.local", "evil.nas.local", 80, "10.0.0.1"),
        ("nas.local", "nas.local.evil.test", 80, "10.0.0.1"),
        ("10.0.0.0/8", "a.test", 80, "::1"),
    ]:
        assert not parse_destination(entry).includes(host, port, ip_address(address))


def test_entry_that_is_not_a_destination_is_refused_by_name():
    for entry in [
        "",
        " ",
        "*",
        "*.local",
        ".local",
        "nas..local",
        "nas.local.",
        "-nas",
        "nas-",
        "nas local",
        "nas.local:",
        "nas.local:0",
        "nas.local:99999",
        "nas.local:+80",
        "nas.local:８０",
        "nas.local:port",
        "nas.local:80:80",
        "http://nas.local",
        "nas.local/",
        "user@nas.local",
        "nas.local?x",
        "nas.local#x",
        "300.1.1.1",
        "10.0.0",
        "10.0.0.1.",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "10.0.0.5/8",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/8:80",
        "[::1",
        "::1]",
        "[nas.local]",
        "[10.0.0.0/8]",
        "fe80::1%eth0/64",
        "ñas.local",
        "a" * 64,
    ]:
        with pytest.raises(ValueError, match=r"\.$") as caught:
            parse_destination(entry)

        assert repr(entry) in str(caught.value)


def test_network_with_host_bits_is_refused_with_both_readings():
    with pytest.raises(ValueError, match=r"write 10\.0\.0\.0/8 or 10\.0\.0\.5"):
        parse_destination("10.0.0.5/8")
