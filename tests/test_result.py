from schedules.result import Code, Err, Ok


def test_results_are_told_apart_by_match():
    def words(result):
        match result:
            case Ok(value):
                return value
            case Err(code, message):
                return f"{code}: {message}"

    assert words(Ok("fine")) == "fine"
    assert words(Err(Code.NOT_FOUND, "no such job")) == "not_found: no such job"
