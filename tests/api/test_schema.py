"""The OpenAPI document against the application: schemathesis asks what it says, and what it rules out."""

import json
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.test import Client
from django.test.client import ClientHandler
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode

from tests.api.conftest import program_of
from tests.factories import ExecutionFactory, JobFactory
from tests.sizes import sizes

# A text that has the right type may still be no schedule, no zone or no task.
ALLOWED = ["2xx", "401", "403", "404", "409", "412", "422", "428"]
# Beside its own list: a tag of no job, and a body that is too large.
REFUSED = ["400", "401", "403", "404", "405", "409", "412", "413", "415", "422", "428", "429"]


@pytest.fixture
def document(owner: User, settings: Any) -> Any:
    settings.CRONTY_MAX_ACTIVE_JOBS = settings.CRONTY_MAX_CREATES_PER_MINUTE = 10**6
    settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE = settings.CRONTY_MAX_RUNS_PER_MINUTE = 10**6
    ExecutionFactory(job=JobFactory(owner=owner, name="Backup"), status="succeeded")
    content = json.loads(Client().get("/api/v1/openapi.json").content)
    # The authorization matrix asks without tokens; here, each request has one, whatever schemathesis leaves out.
    del content["components"]["securitySchemes"]
    for operations in content["paths"].values():
        for operation in operations.values():
            del operation["security"]
    # An answer that does not end.
    del content["paths"]["/api/v1/events/stream"]
    config = schemathesis.Config.from_dict(
        {
            "checks": {
                "positive_data_acceptance": {"expected-statuses": ALLOWED},
                "negative_data_rejection": {"expected-statuses": REFUSED},
            }
        }
    )
    schema = schemathesis.openapi.from_dict(content, config=config)
    schema.app = application
    return schema


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Serve a request within the transaction of the test, like the test client of Django."""
    answer = ClientHandler(enforce_csrf_checks=True)(environ)
    start_response(f"{answer.status_code} {answer.reason_phrase}", list(answer.items()))
    return [b"".join(answer)]


@pytest.mark.parametrize("examples", sizes(1, 8, "API_EXAMPLES"))
def test_every_answer_is_one_that_the_document_describes(owner: User, document: Any, examples: int):
    operations = list(document.get_all_operations())
    # Building the strategies of one operation takes 0.2 s: `make verify` has time for all of them.
    chosen = operations[::5] if examples == 1 else operations
    # Schemathesis does not decompress what an application answers.
    headers = {"Authorization": f"Bearer {program_of(owner).text}", "Accept-Encoding": "identity"}
    asked: Counter[str] = Counter()
    for result in chosen:
        for mode in GenerationMode:
            # An address without parameters cannot be asked wrongly.
            with suppress(Unsatisfiable):
                ask_often(result.ok(), mode, examples, headers, asked)

    assert len(operations) == sum(map(len, document.raw_schema["paths"].values()))
    assert len(asked) == len(chosen)


def ask_often(
    operation: Any, mode: GenerationMode, examples: int, headers: dict[str, str], asked: Counter[str]
) -> None:
    # The same requests in each run, so that a failure stays until it is mended.
    @hypothesis_settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.filter_too_much],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        asked[operation.label] += 1
        case.call_and_validate(headers=headers)

    ask()
