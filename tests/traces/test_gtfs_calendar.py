"""Which services run on which day, and when a day begins."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest
from gtfs_feeds import DAY, SMALL, clock, feed, nodes, north, times, trips

from antecast.core import InputError
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility, parse_clock, parse_date, service_days
from antecast.traces.gtfs.calendar import Services, day_zero
from antecast.traces.gtfs.feed import Feed

EXCEPTIONS = "service_id,date,exception_type\n"


def services(tmp_path, **tables):
    return Services(Feed(feed(tmp_path, **tables)))


def test_a_service_runs_on_its_weekdays_between_its_dates(tmp_path):
    calendar = services(tmp_path)
    assert calendar.on(DAY) == {"S"}
    assert calendar.on(date(2026, 3, 20)) == {"W"}
    assert calendar.on(date(2026, 3, 22)) == set()
    assert calendar.on(date(2026, 2, 28)) == set() and calendar.on(date(2026, 3, 28)) == {"S"}
    assert calendar.on(date(2026, 3, 31)) == {"W"} and calendar.on(date(2026, 4, 1)) == set()


def test_exceptions_add_and_remove(tmp_path):
    rows = EXCEPTIONS + "S,20260321,2\nW,20260321,1\nX,20260401,1\nS,20260328,1\nS,20260328,2\n"
    calendar = services(tmp_path, calendar_dates=rows)
    assert calendar.on(DAY) == {"W"}
    assert calendar.on(date(2026, 4, 1)) == {"X"}
    assert calendar.on(date(2026, 3, 28)) == set(), "what is both added and removed does not run"


def test_calendar_dates_alone_are_enough(tmp_path):
    path = feed(tmp_path, calendar=None, calendar_dates=EXCEPTIONS + "S,20260321,1\n")
    assert gtfs_mobility(path, DAY).summary["trips"] == 2
    assert str(service_days(path)).startswith("2026-03-21 is the first day with service, 2026-03-21 the last")


def test_a_wrong_exception_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"calendar_dates.txt:2: exception_type: expected 1 \(service added\)"):
        services(tmp_path, calendar_dates=EXCEPTIONS + "S,20260321,3\n")


def test_a_day_without_service_names_the_days_with(tmp_path):
    rows = EXCEPTIONS + "S,20260502,1\nW,20260502,1\nW,20260302,2\n"
    path = feed(tmp_path, calendar_dates=rows, trips=SMALL["trips"] + "R,W,early,\n")
    with pytest.raises(InputError) as caught:
        gtfs_mobility(path, date(2026, 4, 4), GtfsSettings(route_types=("bus",)))
    assert str(caught.value).endswith(
        "no bus trip runs on 2026-04-04; 2026-03-03 is the first day with service, 2026-05-02 the last, "
        "2026-05-02 the busiest (3 trips)"
    )


def test_what_never_runs_is_told(tmp_path):
    with pytest.raises(InputError, match=r"no ferry trip runs on any day; routes by type: bus \(1\), tram \(1\)"):
        service_days(feed(tmp_path), GtfsSettings(route_types=("ferry",)))


def test_services_without_trips_are_no_service(tmp_path):
    span = service_days(feed(tmp_path))
    assert (span.first, len(span.counts)) == (date(2026, 3, 7), 22)


def test_dates_and_times_are_read_as_gtfs_writes_them():
    assert parse_date("20240229") == date(2024, 2, 29)
    assert parse_clock("00:00:00") == 0 and parse_clock("27:59:59") == 28 * 3600 - 1
    for wrong in ("2026-3-1", "20260230", "2026-0321", "tomorrow"):
        with pytest.raises(ValueError, match="no such date"):
            parse_date(wrong)
    for wrong in ("8", "8:5", "08:60:00", "-1:00:00", "8:00 am", "08:00:00.5"):
        with pytest.raises(ValueError, match="no time of day"):
            parse_clock(wrong)


def test_a_service_day_begins_twelve_hours_before_noon():
    paris = ZoneInfo("Europe/Paris")
    assert day_zero(DAY, paris).isoformat() == "2026-03-21T00:00:00+01:00"
    assert day_zero(date(2026, 3, 29), paris).isoformat() == "2026-03-28T23:00:00+01:00"


NIGHT = {
    "trips": trips("late R W 9", "out R S 7"),
    "stop_times": times("late A 23:50 C 24:10 E 24:30", "out A 8:00 C 8:20"),
}
"""On Friday a bus goes past midnight."""


def test_times_past_midnight_belong_to_their_service_day(tmp_path):
    table = gtfs_mobility(feed(tmp_path, **NIGHT), DAY - timedelta(days=1)).trajectories
    assert north(table, "9", "24:20") == 3
    assert max(table["t1"].to_pylist()) == clock("24:30")
    assert nodes(gtfs_mobility(feed(tmp_path, **NIGHT), DAY).trajectories) == ["7"]


def test_trips_of_the_day_before_can_be_taken_along(tmp_path):
    result = gtfs_mobility(feed(tmp_path, **NIGHT), DAY, GtfsSettings(overnight=True))
    assert nodes(result.trajectories) == ["7", "9@2026-03-20"]
    assert north(result.trajectories, "9@2026-03-20", "0:20") == 3
    assert min(result.trajectories["t0"].to_pylist()) == 0, "what lies before midnight is cut off"
    assert result.summary["overnight_vehicles"] == 1 and result.summary["vehicles"] == 1


def test_the_day_before_may_be_without_service(tmp_path):
    tables = NIGHT | {"calendar_dates": EXCEPTIONS + "W,20260320,2\n"}
    result = gtfs_mobility(feed(tmp_path, **tables), DAY, GtfsSettings(overnight=True))
    assert nodes(result.trajectories) == ["7"] and result.summary["overnight_vehicles"] == 0


@pytest.mark.parametrize(("zone", "at"), [("Europe/Paris", "1:20"), ("", "0:20"), ("Moon/Tranquility", "0:20")])
def test_where_the_clock_changes_a_day_is_an_hour_shorter(tmp_path, zone, at):
    """On 29 March clocks go forward: noon less twelve hours is 23 hours after that of the day before."""
    tables = NIGHT | {
        "agency": f"agency_timezone\n{zone}\n",
        "calendar_dates": EXCEPTIONS + "W,20260328,1\nS,20260329,1\n",
    }
    table = gtfs_mobility(feed(tmp_path, **tables), date(2026, 3, 29), GtfsSettings(overnight=True)).trajectories
    assert north(table, "9@2026-03-28", at) == 3
