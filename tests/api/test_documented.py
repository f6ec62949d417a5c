"""The requests of the how-to page, sent to the application."""

import json
import shlex
from itertools import pairwise
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Execution, Job
from tests.api.conftest import program_of
from tests.documented import blocks


def test_requests_of_the_page_are_answered(owner: User):
    token = program_of(owner).text
    commands = [
        command
        for block in blocks("docs/how-to/api.md", "sh")
        for command in block.text.replace("\\\n", " ").splitlines()
    ]

    for command in commands:
        words = shlex.split(command.replace("$CRONTY_TOKEN", token).replace("$CRONTY", "http://testserver"))
        headers, data, method = {}, "", "GET"
        for option, value in pairwise(words):
            if option == "-H":
                name, _, text = value.partition(": ")
                headers[name] = text
            elif option == "-d":
                data, method = value, "POST"
            elif option == "-X":
                method = value
        [address] = [word for word in words if word.startswith("http://")]
        kind = headers.pop("Content-Type", "")
        answer = Client().generic(method, urlsplit(address).path, data, content_type=kind, headers=headers)
        assert answer.status_code < 300, (command, json.loads(answer.content))

    assert (Job.objects.get().name, Execution.objects.get().cause) == ("Stand up", "manual")
