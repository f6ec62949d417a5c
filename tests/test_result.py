from schedules.result import Code, Err, Kind, Ok, invalid, invalid_fields


def test_results_are_distinguished_by_match():
    def described(result):
        match result:
            case Ok(value):
                return value
            case Err(kind=Kind.NOT_FOUND, subject=subject):
                return f"no {subject}"

    assert described(Ok("fine")) == "fine"
    assert described(Err(Code.JOB_NOT_FOUND, "job_1_1")) == "no job_1_1"


def test_reasons_of_invalid_values_are_listed_with_and_without_their_fields():
    refusal = invalid_fields({"a": ["One.", "Two."], "b": ["Three."]})

    assert refusal.named_reasons == "a: One. Two.; b: Three."
    assert refusal.reasons == "One. Two. Three."
    assert invalid("a", "One.") == Err(Code.INVALID, errors={"a": ["One."]})
