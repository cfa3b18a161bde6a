"""Numbers in words."""

import pytest

from refimpl.experiments.words import duration, several


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 seconds"),
        (1, "1 second"),
        (90, "90 seconds"),
        (91, "2 minutes"),
        (3600, "60 minutes"),
        (5400, "90 minutes"),
        (5401, "2 hours"),
        (36000, "10 hours"),
    ],
)
def test_a_duration_is_in_the_largest_unit_of_which_it_is_more_than_one_and_a_half(seconds, words):
    assert duration(seconds) == words


def test_one_is_singular():
    assert [several(count, "run") for count in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
