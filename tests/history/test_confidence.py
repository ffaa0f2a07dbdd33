"""Student's t against printed tables and closed forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.confidence import t_expansion, t_probability, t_quantile


@pytest.mark.parametrize(
    ("degrees", "at_90", "at_95", "at_99"),
    [
        # Abramowitz and Stegun, table 26.10: two-sided.
        (1, 6.314, 12.706, 63.657),
        (2, 2.920, 4.303, 9.925),
        (3, 2.353, 3.182, 5.841),
        (4, 2.132, 2.776, 4.604),
        (9, 1.833, 2.262, 3.250),
        (19, 1.729, 2.093, 2.861),
        (29, 1.699, 2.045, 2.756),
        (60, 1.671, 2.000, 2.660),
        (120, 1.658, 1.980, 2.617),
    ],
)
def test_quantiles_are_those_of_the_tables(degrees: int, at_90: float, at_95: float, at_99: float) -> None:
    found = [round(t_quantile(probability, degrees), 3) for probability in (0.95, 0.975, 0.995)]
    assert found == [at_90, at_95, at_99]


@given(st.floats(0.001, 0.999))
def test_one_and_two_degrees_have_closed_forms(probability: float) -> None:
    assert t_quantile(probability, 1) == pytest.approx(
        math.tan(math.pi * (probability - 0.5)), rel=1e-9, abs=1e-12
    )
    alpha = 4 * probability * (1 - probability)
    closed = 2 * (probability - 0.5) * math.sqrt(2 / alpha)
    assert t_quantile(probability, 2) == pytest.approx(closed, rel=1e-9, abs=1e-12)


@given(st.floats(0.01, 0.99), st.integers(1, 2000))
def test_quantile_and_probability_undo_each_other(probability: float, degrees: int) -> None:
    assert t_probability(t_quantile(probability, degrees), degrees) == pytest.approx(probability, rel=1e-10)


@pytest.mark.parametrize("probability", [0.9, 0.95, 0.975, 0.995])
@pytest.mark.parametrize("degrees", [101, 250, 5000])
def test_the_series_takes_over_without_a_step(probability: float, degrees: int) -> None:
    series = sum(c / degrees**power for power, c in enumerate(t_expansion(probability)))
    assert series == pytest.approx(t_quantile(probability, degrees), rel=1e-9)


@pytest.mark.parametrize(("probability", "degrees"), [(0, 3), (1, 3), (0.5, 0)])
def test_what_has_no_quantile_is_refused(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(probability, degrees)
