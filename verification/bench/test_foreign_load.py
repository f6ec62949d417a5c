import pytest

from verification.bench.foreign_load import ForeignLoad


@pytest.mark.parametrize(
    ("before", "during", "is_heavy"), [(0.02, 0.05, False), (0.3, 0.0, True), (0.0, 0.3, True)]
)
def test_load_before_or_during_a_measurement_makes_it_unreliable(before, during, is_heavy):
    load = ForeignLoad(load_average=0.5, before=before, during=during, loop=41.7)

    assert load.as_json() == {
        "load_average": 0.5,
        "before": before,
        "during": during,
        "loop": 42,
        "is_heavy": is_heavy,
    }


def test_share_of_others_is_known_only_after_the_measurement():
    load = ForeignLoad(load_average=0.5, before=0.0)

    assert load.during is None
    assert 0 <= (load.finish().during or 0) <= 1


def test_speed_of_the_core_is_that_of_its_slower_moment():
    assert ForeignLoad(load_average=0.5, before=0.0, loop=10**9).finish().loop == 10**9
    assert ForeignLoad(load_average=0.5, before=0.0, loop=0).finish().loop > 0
