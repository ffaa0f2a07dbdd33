"""Tables of feeds as many hands write them: what is forgiven, and what is an error with a line."""

import zipfile

import numpy as np
import pytest
from gtfs_feeds import DAY, SMALL, feed, zipped

from antecast.core import InputError
from antecast.traces.gtfs import gtfs_mobility
from antecast.traces.gtfs.feed import Feed


def same_as_the_small_feed(path, tmp_path):
    expected = gtfs_mobility(feed(tmp_path / "plain"), DAY).trajectories
    return gtfs_mobility(path, DAY).trajectories.equals(expected)


def spoil(table, old, new):
    assert old in SMALL[table]
    return {table: SMALL[table].replace(old, new)}


MESS = {
    "a byte order mark": {"stops": b"\xef\xbb\xbf" + SMALL["stops"].encode()},
    "Windows line ends": {"stop_times": SMALL["stop_times"].replace("\n", "\r\n")},
    "no line end at the end": {"stops": SMALL["stops"].rstrip("\n")},
    "empty lines": {"stop_times": "\n" + SMALL["stop_times"].replace("\nback", "\n\nback") + "\n\n"},
    "quotes around everything": {
        "trips": "\n".join(",".join(f'"{cell}"' for cell in row.split(",")) for row in SMALL["trips"].splitlines())
    },
    "a comma inside quotes": spoil("stops", "Birch", '"Birch, by the ""old"" mill"'),
    "a line break inside quotes": spoil("stops", "Birch", '"Birch\nnorth"'),
    "blanks around names of columns": {"trips": SMALL["trips"].replace(",service_id", " , service_id ")},
    "blanks before numbers": {"stops": SMALL["stops"].replace(",48", ",   48").replace(",7.0", ",  7.0 ")},
    "blanks around ids": {"stop_times": SMALL["stop_times"].replace(",B,", ", B ,")},
    "a blank before the hour": {"stop_times": SMALL["stop_times"].replace(",08:", ", 8:")},
    "names of columns in capitals": {"routes": SMALL["routes"].replace("route_type", "ROUTE_TYPE")},
    "columns that GTFS does not know": {
        "trips": SMALL["trips"].replace("block_id", "block_id,colour").replace(",7\n", ",7,red\n")
    },
    "a column that is there twice": {
        "trips": SMALL["trips"].replace("block_id", "block_id,block_id").replace(",7\n", ",7,8\n")
    },
    "an empty cell too many": {"trips": SMALL["trips"].replace("out,7", "out,7,")},
    "rows of nothing but commas": {"trips": SMALL["trips"] + ",,,\n", "stops": SMALL["stops"] + ",,,\n"},
    "no agency": {"agency": None},
    "empty optional tables": {"agency": "", "shapes": "", "frequencies": "", "calendar_dates": "\n\n"},
    "optional tables with a header alone": {
        "frequencies": "trip_id,start_time,end_time,headway_secs\n",
        "calendar_dates": "service_id,date,exception_type\n",
        "shapes": "shape_id,shape_pt_lat,shape_pt_lon,shape_pt_sequence\n",
    },
    "a stop of no use without coordinates": {"stops": SMALL["stops"] + "gate,Gate,,\n"},
    "Latin-1": {"stops": SMALL["stops"].replace("Elm", "Orme du château").encode("latin-1")},
    "UTF-16": {"stops": SMALL["stops"].encode("utf-16")},
}


@pytest.mark.parametrize("tables", MESS.values(), ids=MESS.keys())
def test_mess_is_forgiven(tmp_path, tables):
    assert same_as_the_small_feed(feed(tmp_path, **tables), tmp_path)


def test_a_zip_is_read_like_a_folder(tmp_path):
    assert same_as_the_small_feed(zipped(tmp_path), tmp_path)


def test_tables_may_lie_in_a_folder_of_the_zip_and_be_written_in_capitals(tmp_path):
    path = zipped(tmp_path, "export/GTFS/")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("__MACOSX/stop_times.txt", "\0\0")
        file.writestr("export/GTFS/old/deeper/stop_times.txt", "trip_id\n")
    assert same_as_the_small_feed(path, tmp_path)
    shouted = feed(tmp_path / "capitals")
    (shouted / "stops.txt").rename(shouted / "Stops.TXT")
    assert same_as_the_small_feed(shouted, tmp_path)


def test_rows_cut_short_are_padded_and_counted(tmp_path):
    path = feed(tmp_path, trips="trip_id,route_id,service_id,block_id,note\nout,R,S,7\nback,R,S,7,slow\n")
    result = gtfs_mobility(path, DAY)
    assert result.summary["blocks"] == 1
    assert "rows of trips.txt with cells missing at the end, read as empty: 1" in result.summary["notes"]


def test_columns_that_are_optional_may_be_missing(tmp_path):
    path = feed(
        tmp_path,
        routes="route_id,route_type\nR,3\n",
        trips="route_id,service_id,trip_id\nR,S,out\nR,S,back\n",
        stops="stop_id,stop_lat,stop_lon\nA,48,7\nB,48.01,7\nC,48.02,7\n",
    )
    assert gtfs_mobility(path, DAY).summary["chains"] == 1


ERRORS = {
    "no stops": ({"stops": None}, "stops.txt: is missing; a GTFS feed needs this table with stop_id"),
    "empty stops": ({"stops": ""}, "stops.txt: is empty"),
    "no column": (
        spoil("trips", "service_id", "services"),
        "trips.txt:1: lacks the column service_id; it has route_id",
    ),
    "semicolons": ({"routes": "route_id;route_type\nR;3\n"}, "routes.txt:1: lacks the column route_id"),
    "no times": (
        {"stop_times": "trip_id,stop_id,stop_sequence\nout,A,1\n"},
        "stop_times.txt:1: has neither arrival_time nor departure_time",
    ),
    "a word for a number": (spoil("stops", "48.01", "north"), "stops.txt:3: stop_lat is not a number: 'north'"),
    "an endless number": (spoil("stops", "48.01", "inf"), "stops.txt:3: stop_lat is not a number"),
    "beyond the pole": (
        spoil("stops", "48.02", "148.02"),
        "stops.txt:4: stop_lat is 148.02; degrees lie between -90",
    ),
    "a comma without quotes": (
        spoil("stops", "Cedar", "Cedar, old"),
        "stops.txt:4: has 5 cells where the header names 4 columns; a comma inside a value needs quotes around it",
    ),
    "an open quote": (
        spoil("stops", "Cedar", '"Cedar' + "x" * 200_000),
        "stops.txt: a quotation mark is never closed",
    ),
    "no time of day": (
        spoil("stop_times", "08:25:00", "half past"),
        "stop_times.txt:6: arrival_time: no time of day: 'half past'; it is written as 05:15:00, past midn",
    ),
    "no order": (
        spoil("stop_times", "out,2,", "out,,"),
        "stop_times.txt:3: stop_sequence is empty; it is a whole number",
    ),
    "no type": (spoil("routes", "1,3", "1,bus"), "routes.txt:2: route_type: not a route type: 'bus'; a bus is 3"),
    "no date": (
        spoil("calendar", "20260301,20260331\nW", "20260301,20260231\nW"),
        "calendar.txt:2: end_date: no such date",
    ),
    "a day that is no flag": (
        spoil("calendar", "S,0", "S,yes"),
        "calendar.txt:2: monday: expected 0 or 1, got 'yes'",
    ),
    "no calendar": ({"calendar": None}, "calendar.txt: neither calendar.txt nor calendar_dates.txt names a day"),
    "nowhere": (
        {"stops": "stop_id,stop_lat,stop_lon\nA,,\nB,0,0\n"},
        "stops.txt: no stop has a latitude and a longitude",
    ),
}


@pytest.mark.parametrize(("tables", "words"), ERRORS.values(), ids=ERRORS.keys())
def test_what_cannot_be_understood_is_an_error_with_its_line(tmp_path, tables, words):
    with pytest.raises(InputError) as caught:
        gtfs_mobility(feed(tmp_path, **tables), DAY)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_is_that_of_the_file_in_spite_of_empty_lines_and_line_breaks_in_quotes(tmp_path):
    stops = SMALL["stops"].replace("Ash", '"Ash\n\nsouth"').replace("C,Cedar,48.02", "\n\nC,Cedar,?")
    path = feed(tmp_path, stops=stops)
    with pytest.raises(InputError, match=r"stops.txt:8: stop_lat is not a number: '\?'"):
        gtfs_mobility(path, DAY)


def test_rows_of_other_days_are_not_judged(tmp_path):
    rows = SMALL["stop_times"] + "weekday,1,A,never,never\n"
    assert same_as_the_small_feed(feed(tmp_path, stop_times=rows), tmp_path)


def test_a_member_of_a_zip_is_named_in_errors(tmp_path):
    path = zipped(tmp_path, "in/", **spoil("stops", "48.01", "x"))
    with pytest.raises(InputError, match=r"feed\.zip/in/stops\.txt:3: "):
        gtfs_mobility(path, DAY)


def test_what_is_no_feed_is_told_apart(tmp_path):
    (tmp_path / "text.zip").write_text("not a zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("north.zip", b"")
    broken = zipped(tmp_path)
    broken.write_bytes(broken.read_bytes().replace(b"Birch", b"Beech"))
    for name, words in (
        ("text.zip", "neither a zip nor a folder"),
        ("absent.zip", "cannot read: No such file"),
        ("other.zip", "holds no stop_times.txt, so it is not a GTFS feed; it holds north.zip"),
        ("feed.zip", "cannot read: Bad CRC-32"),
    ):
        with pytest.raises(InputError, match=words):
            gtfs_mobility(tmp_path / name, DAY)


def test_equal_names_have_equal_codes_however_they_are_written(tmp_path):
    sheet = Feed(feed(tmp_path, extra='name,n\nA,1\n A ,2\n"A",\n,4\nB,5\n')).sheet("extra", ["name"], ["n"])
    names = sheet.names("name")
    assert names.codes.tolist() == [0, 0, 0, -1, 1] and names.values == ["A", "B"]
    assert names.rows_by_name() == {"A": 0, "B": 4}
    assert names.look_up({"B": 9}).tolist() == [-1, -1, -1, -1, 9]
    assert np.array_equal(sheet.numbers("n"), [1, 2, np.nan, 4, 5], equal_nan=True)
    assert np.isnan(sheet.numbers("absent")).all()
