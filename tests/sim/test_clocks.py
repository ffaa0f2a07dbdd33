"""Local clocks never go back, stay within their bound, and timers fire when the clock says so."""

from hypothesis import given
from hypothesis import strategies as st

from antecast.sim.clocks import Clock, ClockSettings, make_clock

clocks = st.builds(
    Clock,
    st.integers(-(10**10), 10**10),
    st.integers(-500_000_000, 500_000_000),
    st.none() | st.integers(0, 10**9),
)
instants = st.integers(0, 10**13)


@given(clocks, instants, instants)
def test_a_clock_never_goes_back(clock, one, other):
    earlier, later = sorted((one, other))
    assert clock.read(earlier) <= clock.read(later)


@given(clocks, instants)
def test_the_instant_of_a_local_time_is_the_first_that_shows_it(clock, local):
    at = clock.when(local)
    assert clock.read(at) >= local
    assert at == 0 or clock.read(at - 1) < local


@given(st.integers(-(10**10), 10**10), st.integers(-1000, 1000), st.integers(0, 10**9), instants)
def test_a_bound_holds(offset, drift, bound, now):
    assert abs(Clock(offset, drift, bound).read(now) - now) <= bound


def test_settings_make_clocks_within_their_limits():
    settings = ClockSettings(offset=1000, drift=50.0, fixed={"3": -77})
    offsets = {clock.read(0) for node in range(50) if (clock := make_clock(settings, 1, node))}
    assert all(-1000 <= offset <= 1000 for offset in offsets)
    assert len(offsets) > 20
    fixed = make_clock(settings, 1, 3)
    assert fixed is not None and fixed.read(0) == -77


def test_no_offset_and_no_drift_need_no_clock():
    assert make_clock(ClockSettings(), 1, 0) is None
