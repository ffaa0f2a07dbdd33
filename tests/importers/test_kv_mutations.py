"""Faults in sound histories: each is found at its line, or refused; none passes as sound that is not."""

import random
import sys
from pathlib import Path

import pytest

from antecast.core.errors import InputError
from antecast.importers.registry import importer, recognise
from antecast.importers.source import Source
from antecast.kv import check

sys.path.insert(0, str(Path(__file__).parents[1] / "kv"))
from published import FORMATS, r, t, w

SOUND = [
    *(t(0, w(1, 1), w(2, 1)), t(1, r(1, 1), w(1, 2)), t(2, r(2, 1), r(1, 2)), t(0, r(1, 2), w(2, 2))),
    *(t(2, w(3, 1)), t(1, r(3, 1), r(2, 2)), t(2, r(2, 2), w(1, 3)), t(0, r(1, 3), r(3, 1))),
]


def lost_write(txns):
    """Its readers have nobody to read from."""
    (session, status, (_, *rest)), *others = txns
    return [(session, status, tuple(rest)), *others], "thin-air-read"


def swapped_reads(txns):
    """The last session reads an old value after a new one."""
    return [*txns, t(0, r(1, 1))], "conflict-CO"


def swapped_transactions(txns):
    """A session reads what it writes only later."""
    first, second, *rest = txns
    session, status, ops = second
    return [first, (session, status, (r(2, 2), *ops)), *rest], "cyclic-causal-order"


def renamed_session(txns):
    """A reader that has seen nothing of its own past is no fault by itself: what it read stands."""
    return [(9 if n == 6 else session, *rest) for n, (session, *rest) in enumerate(txns)], None


def aborted_writer(txns):
    from published import ABORTED

    return [
        (session, ABORTED if n == 4 else status, ops) for n, (session, status, ops) in enumerate(txns)
    ], "aborted-read"


def repeated_read(txns):
    """A second look that returns something else."""
    return [*txns, t(8, r(1, 2), r(1, 3))], "non-repeatable-read"


FAULTS = [lost_write, swapped_reads, swapped_transactions, renamed_session, aborted_writer, repeated_read]


def judged(files):
    source = Source(tuple(files))
    return check(recognise(source).read(source))


@pytest.mark.parametrize("name", FORMATS)
def test_the_history_is_sound(name, tmp_path):
    assert judged(FORMATS[name](SOUND, tmp_path)).outcome == "kept"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("name", FORMATS)
def test_a_fault_is_named(name, fault, tmp_path):
    transactions, expected = fault(SOUND)
    verdict = judged(FORMATS[name](transactions, tmp_path))
    if expected is None:
        assert verdict.outcome == "kept"
    else:
        assert expected in verdict.counts and verdict.exit_code == 1


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_ends_anywhere_never_passes_as_the_whole(name, tmp_path):
    """Refused, or a violation, or a shorter history that says how short it is."""
    files = FORMATS[name](SOUND, tmp_path)
    whole = judged(files).operations
    file = files[-1]
    data = file.read_bytes()
    for end in random.Random(1).sample(range(1, len(data) - 1), 40):
        file.write_bytes(data[:end])
        try:
            verdict = judged(files)
        except (InputError, AttributeError):  # nobody recognises it any more
            continue
        assert verdict.outcome != "kept" or verdict.operations < whole


@pytest.mark.parametrize("name", ["plume", "elle", "dbcop"])
def test_a_byte_that_is_not_text_is_refused_at_its_line(name, tmp_path):
    (file,) = FORMATS[name](SOUND, tmp_path)
    data = bytearray(file.read_bytes())
    at = data.index(b"\n", len(data) // 2) - 2
    data[at] = 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(InputError, match="not UTF-8") as told:
        judged([file])
    assert told.value.line == data[:at].count(b"\n") + 1


def test_two_formats_are_two_logs(tmp_path):
    files = [*FORMATS["plume"](SOUND, tmp_path), *FORMATS["elle"](SOUND, tmp_path)]
    with pytest.raises(InputError, match="a log has one format"):
        judged(files)


def test_an_empty_file_never_passes_as_sound(tmp_path):
    """Among others it is refused; alone, with its format given, nothing is judged."""
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(InputError, match="the file is empty"):
        judged([*FORMATS["plume"](SOUND, tmp_path), empty])
    for name in ("plume", "elle"):
        assert check(importer(name).read(Source((empty,)))).outcome == "inconclusive"
