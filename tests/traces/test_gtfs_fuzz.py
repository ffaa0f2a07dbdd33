"""Whatever a feed's text is: trajectories that keep the contract, or an error that names the file."""

import tempfile
from pathlib import Path

from gtfs_feeds import DAY, SHAPES, SMALL, check_pieces, feed, shape
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import AntecastError
from antecast.core.settings import Duration
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility

FULL = SMALL | {
    "trips": "route_id,service_id,trip_id,block_id,shape_id\nR,S,out,7,s\nR,S,back,,t\nT,S,more,,\n",
    "shapes": SHAPES + shape("s", (0, 0), (1, 0.1), (2, 0)) + shape("t", (2, 0), (0, 0)),
    "frequencies": "trip_id,start_time,end_time,headway_secs,exact_times\nmore,9:00:00,9:30:00,600,1\n",
    "calendar_dates": "service_id,date,exception_type\nS,20260328,2\nW,20260328,1\n",
    "stop_times": SMALL["stop_times"] + "more,1,D,0:00:00,0:00:00\nmore,2,E,,\nmore,3,A,0:15:00,\n",
}
SETTINGS = GtfsSettings(layover=Duration(10**15), overnight=True)

WORDS = ["0", "-1", "1e999", "nan", "9" * 20, "8:00", "99:00:00", "20260321", "A", "out", "S", "7", "48.5", "-7.5"]
MARKS = ["", " ", ",", ",,", ";", '"', "\n", "\r\n", "\0", "é", "\ufeff", "x" * 50]


@st.composite
def spoilt(draw):
    """A feed with a few cuts and insertions."""
    tables = dict(FULL)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(tables)))
        text = tables[name]
        at = draw(st.integers(0, len(text)))
        cut = draw(st.sampled_from([0, 0, 1, 2, 5, 30]))
        tables[name] = text[:at] + draw(st.sampled_from(WORDS + MARKS)) + text[at + cut :]
    return tables


@given(spoilt())
def test_a_spoilt_feed_is_read_or_refused_in_one_line(tables):
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = gtfs_mobility(feed(Path(folder), **tables), DAY, SETTINGS)
        except AntecastError as error:
            assert "\n" not in str(error)
        else:
            check_pieces(result.trajectories)
            assert result.summary["fastest_kmh"] < 1e6
