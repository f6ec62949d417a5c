"""The request headers that a webhook may set."""

from schedules.tasks.outbound import headers


def test_known_header_is_allowed():
    for name in ["Authorization", "x-api-key", "X-Custom-Team", "X-Webhook-Id", "CONTENT-TYPE"]:
        assert headers.header_problem(name, "v") is None


def test_unknown_header_is_refused_by_name():
    for name in [
        "X-Team",
        "X-Client-IP",
        "X-Remote-User",
        "X-HTTP-Method-Override",
        "True-Client-IP",
        "CF-Connecting-IP",
        "Forwarded",
        "Via",
        "Range",
        "Referer",
        "Origin",
        "Cookie",
        "Host",
        "Proxy-Authorization",
        "Cronty-Attempt",
    ]:
        problem = headers.header_problem(name, "v")

        assert problem is not None
        assert repr(name) in problem


def test_operator_can_add_a_header_but_not_one_that_frames_the_request_or_is_ours():
    added = ["X-Team", "Host", "X-Forwarded-For", "Cronty-Signature"]

    assert headers.header_problem("x-team", "v", added) is None
    for name in added[1:]:
        assert headers.header_problem(name, "v", added)
        assert "never" in (headers.setting_problem(name) or "")
    assert headers.setting_problem("X-Team") is None
    assert headers.setting_problem("X Team")


def test_list_of_allowed_headers_contains_none_that_is_never_allowed():
    assert not headers.ALLOWED & headers.NEVER
    assert not any(name.startswith(headers.NEVER_PREFIXES) for name in headers.ALLOWED)
    assert all(headers.setting_problem(name) is None for name in headers.ALLOWED)


def test_value_that_is_no_header_is_refused_without_quoting_it():
    for value in [" key", "key ", " ", "key\n", "two\nlines", "ä", "x" * 2049]:
        assert "must be one line" in (problem := headers.shape_problem("x-api-key", value) or "")
        assert repr(value) not in problem


def test_value_with_spaces_inside_is_allowed():
    for value in ["", "k", "Bearer key", "x" * 2048]:
        assert headers.shape_problem("x-api-key", value) is None
