from schedules.result import Code, Err, Ok, invalid, invalid_fields


def test_results_are_distinguished_by_match():
    def words(result):
        match result:
            case Ok(value):
                return value
            case Err(code, message):
                return f"{code}: {message}"

    assert words(Ok("fine")) == "fine"
    assert words(Err(Code.NOT_FOUND, "no such job")) == "not_found: no such job"


def test_refused_values_are_named_in_the_message_and_by_field():
    assert invalid("run_at", "Too late.") == Err(
        Code.INVALID, "run_at: Too late.", errors={"run_at": ["Too late."]}
    )
    assert invalid_fields({"a": ["One.", "Two."], "b": ["Three."]}).message == "a: One. Two.; b: Three."
