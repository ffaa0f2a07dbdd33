"""What readers are given: text out of plain and compressed files, times without rounding, errors with a line."""

import bz2
import gzip
import io
import lzma
import zipfile
from decimal import ROUND_HALF_EVEN

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import InputError
from antecast.traces import read
from antecast.traces.spelling import plain, seconds
from antecast.traces.text import numbers, times

ONE = b"# two of us\n0 CONN 0 1 up\n10.5 CONN 0 1 down\n"


def fail(row, problem):
    raise ValueError(f"{row}: {problem}")


def zipped(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("trace.txt", data)
    return file.getvalue()


PACKERS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "zip": zipped,
}


@pytest.mark.parametrize("packing", PACKERS)
def test_compression_is_told_by_content_and_not_by_name(tmp_path, packing):
    path = tmp_path / "trace.txt"
    path.write_bytes(PACKERS[packing](ONE))
    assert read(path).table.to_pylist() == [{"a": "0", "b": "1", "start": 0, "end": 10_500_000_000}]


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz", "zstd", "zip"])
def test_a_compressed_file_cut_short_is_an_error(tmp_path, packing):
    path = tmp_path / "trace"
    whole = PACKERS[packing](ONE * 1000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"trace: the {packing} data is damaged or cut short"):
        read(path)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "trace: an empty file"),
        (b"\n \n\t\n", "trace: an empty file"),
        (b"# only words\n", "trace: empty: there is no trace in it"),
        (b"0 CONN 0 1 up\n\0\x01\x02\x93", "trace:2: a binary file, not text"),
        (b"0 CONN 0 1 up\n10 CONN 0 \xe9 down\n", r"trace:2: not UTF-8 text \(byte 0xe9\)"),
        ("0 CONN 0 1 up\n".encode("utf-16"), "trace:1: a binary file"),
        (b"\x1f\x8b nothing of the kind", "trace: the gzip data is damaged"),
    ],
)
@pytest.mark.parametrize("name", [None, "one", "ns2", "csv"])
def test_what_is_no_text_is_refused(tmp_path, data, problem, name):
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(InputError, match=problem):
        read(path, name)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match="absent: cannot read: No such file"):
        read(tmp_path / "absent")
    with pytest.raises(InputError, match="cannot read: Is a directory"):
        read(tmp_path)
    with pytest.raises(InputError, match="absent: cannot read: No such file"):
        read(tmp_path / "absent", "parquet")


def test_an_archive_of_several_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "feed.zip", "w") as archive:
        archive.writestr("stops.txt", "x")
        archive.writestr("trips.txt", "y")
    with pytest.raises(InputError, match="a zip archive of 2 files"):
        read(tmp_path / "feed.zip")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like_and_a_byte_order_mark_is_no_part_of_them(tmp_path, end):
    path = tmp_path / "trace"
    path.write_bytes(b"\xef\xbb\xbf" + ONE.replace(b"\n", end.encode())[:-1])
    assert len(read(path).table) == 1


def test_times_are_exact_where_binary_fractions_are_not():
    assert times(
        pa.array(["0.1", "0.3", "1234567890.123456789", "58", ".5", "5.", "1e3", "+2"]), fail
    ).tolist() == [
        100_000_000,
        300_000_000,
        1_234_567_890_123_456_789,
        58_000_000_000,
        500_000_000,
        5_000_000_000,
        1_000_000_000_000,
        2_000_000_000,
    ]


@given(st.decimals(0, 4_000_000_000, allow_nan=False, places=15))
def test_times_with_more_than_nine_decimals_are_rounded(value):
    expected = int((value * 10**9).to_integral_value(ROUND_HALF_EVEN))
    assert times(pa.array([f"{value:f}", "1.00000000000000001"]), fail).tolist() == [expected, 10**9]


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("nan", "a time in seconds"),
        ("inf", "a time in seconds"),
        ("1_000", "a time in seconds"),
        ("12:30:00", "a time in seconds"),
        ("", "a time in seconds"),
        ("٣", "a time in seconds"),
        ("-1", "zero or more"),
        ("-0.0000000001", "zero or more"),
        ("1e300", "more than 146 years"),
        ("1e999999999999", "more than 146 years"),
        ("9999999999", "more than 146 years"),
    ],
)
def test_what_is_no_time_is_found(word, problem):
    with pytest.raises(ValueError, match=f"1: expected .*{problem}"):
        times(pa.array(["1", word]), fail)


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "1e999", "x", "", "1,5"])
def test_what_is_no_number_is_found(word):
    with pytest.raises(ValueError, match="1: expected a number"):
        numbers(pa.array(["-1.5e3", word]), fail)


@given(st.integers(0, 2**62))
def test_a_time_reads_as_it_was_written(ns):
    assert times(pa.array([seconds(ns)]), fail).tolist() == [ns]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_as_it_was_written(value):
    [word] = plain(pa.array([value]).to_numpy())
    assert "e" not in word
    assert numbers(pa.array([word]), fail)[0] == value
