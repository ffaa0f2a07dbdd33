"""Settings: quantities with units, and errors that name the field and what would be right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.core.settings import (
    BitRate,
    Duration,
    Offset,
    Settings,
    format_duration,
    parse_duration,
    plain_settings,
    read_settings,
)


class Inner(Settings, frozen=True, kw_only=True):
    depth: int = 0


class Example(Settings, frozen=True, kw_only=True):
    wait: Duration = Duration(0)
    shift: Offset = Offset(0)
    rate: BitRate | None = None
    inner: Inner = Inner()
    items: list[Inner] = []


@given(st.integers(0, 10**18))
def test_a_duration_is_written_so_that_it_reads_back(ns):
    assert parse_duration(format_duration(ns)) == ns


@given(
    st.builds(Example, wait=st.integers(0, 10**15).map(Duration), shift=st.integers(-(10**15), 10**15).map(Offset))
)
def test_plain_settings_read_back(example):
    assert read_settings(plain_settings(example), Example) == example


def test_units_are_read():
    example = read_settings({"wait": "1.5 s", "shift": "-2ms", "rate": "10Mb/s"}, Example)
    assert (example.wait, example.shift, example.rate) == (1_500_000_000, -2_000_000, 10_000_000)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"wait": 5}, r"wait: expected a duration with its unit, such as \"250ms\" .* got 5 without a unit"),
        ({"wait": "5 parsecs"}, r"wait: expected a duration .* got '5 parsecs'"),
        ({"wait": "-5s"}, "wait: expected a duration of zero or more, got '-5s'"),
        ({"rate": "0Mb/s"}, "rate: expected a bit rate above zero"),
        ({"wiat": "5s"}, "unknown key 'wiat'; did you mean 'wait'"),
        ({"zzz": 1}, "unknown key 'zzz'; known keys: wait, shift, rate, inner, items"),
        ({"inner": {"dept": 1}}, "inner: unknown key 'dept'; did you mean 'depth'"),
        ({"inner": {"depth": "deep"}}, "inner.depth: expected a whole number, got text"),
        ({"items": [{}, {"dpth": 1}]}, r"items\[1\]: unknown key 'dpth'; did you mean 'depth'"),
        ({"items": 3}, "items: expected a list, got a whole number"),
    ],
)
def test_an_error_names_the_field_and_the_cure(values, message):
    with pytest.raises(ConfigurationError, match=message):
        read_settings(values, Example)


def test_a_path_is_put_in_front():
    with pytest.raises(ConfigurationError, match=r"^protocol\.inner\.depth: expected"):
        read_settings({"inner": {"depth": "x"}}, Example, path="protocol")
