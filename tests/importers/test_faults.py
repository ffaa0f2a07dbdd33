"""One fault at a time in a sound log of every format: found and named at its line, or refused in one line.

None of these may pass as sound. Where a log keeps no trace of a fault (a shuffled file of spans, a service that is
renamed everywhere) it is still sound, and the test says so.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sound_logs import CHAT, SPANS, TRACES, chat, clock_events, govector, put, shifted

import antecast
from antecast.core.errors import AntecastError, InputError

EVENTS = clock_events()
LAYOUTS = ("clock first", "event first", "one line")
PLUME = "".join(f"w({each},{each},1,{2 * each})\nr({each},{each},2,{2 * each + 1})\n" for each in range(1, 16))
ELLE = "".join(
    f"{{:type :{kind}, :process {each % 3}, :f :txn, :value [[:r x {each - 1 or 'nil'}] [:w x {each}]]}}\n"
    for each in range(1, 16)
    for kind in ("invoke", "ok")
)
DBCOP = json.dumps(
    [[{"events": [{"Write": {"variable": 1, "version": each}}], "committed": True} for each in range(1, 9)]],
    indent=1,
)
TABLE = "".join(
    f"{','.join(map(str, row))}\n"
    for row in (["node", "pos", "kind", "origin", "seq"], *(each.values() for each in CHAT))
)
TEXTS: dict[str, str] = {
    **{f"govector {layout}": govector(EVENTS, layout) for layout in LAYOUTS},
    **{name: make(SPANS) for name, make in TRACES.items()},
    "chat": chat(),
    "plume": PLUME,
    "elle": ELLE,
    "dbcop": DBCOP,
    "chat-csv": TABLE,
}

FOREIGN = [form for form in TEXTS if not form.startswith("chat")]
"""What is recognised by what it holds; tables of broadcasts and deliveries go by their names."""


def audit(file: Path | list[Path], **options: Any) -> Any:
    return antecast.audit(file, **options)


def name_of(form: str) -> str:
    return {"chat": "log.jsonl", "chat-csv": "log.csv"}.get(form, "log.txt")


@pytest.mark.parametrize("form", TEXTS)
def test_the_logs_are_sound_before_anything_is_done_to_them(form: str, tmp_path: Path) -> None:
    assert audit(put(tmp_path, TEXTS[form], name_of(form))).outcome in ("sound", "causal", "kept")


# Files that are damaged, whatever is in them.


@pytest.mark.parametrize("form", TEXTS)
def test_an_empty_file_is_refused(form: str, tmp_path: Path) -> None:
    for text in ("", "\n\n"):
        with pytest.raises(AntecastError, match="empty"):
            audit(put(tmp_path, text, name_of(form)))
    with pytest.raises(AntecastError, match="empty"):
        audit([put(tmp_path, TEXTS[form], f"0-{name_of(form)}"), put(tmp_path, "", name_of(form))])


@pytest.mark.parametrize("form", TEXTS)
def test_the_last_line_cut_short_is_noticed(form: str, tmp_path: Path) -> None:
    """Cut in the middle of the last record: refused there, or never sound."""
    lines = TEXTS[form].rstrip("\n").split("\n")
    record = {"govector clock first": 2, "git-raw": 6}.get(form, 1)
    kept, last = lines[:-record], lines[-record]
    text = "\n".join([*kept, last[: len(last) // 2]])
    with pytest.raises(InputError) as refused:
        audit(put(tmp_path, text, name_of(form)))
    line = refused.value.line
    whole = form in ("otlp-pretty", "jaeger", "zipkin", "otel-console")
    assert line is not None and (whole or abs(line - len(kept) - 1) <= 2), str(refused.value)


@pytest.mark.parametrize("form", TEXTS)
def test_another_encoding_is_refused_at_its_line(form: str, tmp_path: Path) -> None:
    lines = TEXTS[form].encode().split(b"\n")
    place = 24 if form == "plume" else min(len(lines) - 2, 4)
    bad = [*lines[:place], lines[place] + b"\xe9", *lines[place + 1 :]]
    with pytest.raises(InputError, match=rf":{place + 1}: .*(UTF-8|expected|JSON|w\(|match|fields|number)"):
        audit(put(tmp_path, b"\n".join(bad), name_of(form)))
    with pytest.raises(AntecastError):
        audit(put(tmp_path, TEXTS[form].encode("utf-16"), name_of(form)))


@pytest.mark.parametrize("form", TEXTS)
def test_a_line_that_is_too_long_is_refused_before_it_is_read(form: str, tmp_path: Path) -> None:
    file = put(tmp_path, TEXTS[form], name_of(form))
    with file.open("r+b") as stream:  # a gigabyte of nothing, which takes no room on the disk
        stream.seek(0, 2)
        stream.truncate(stream.tell() + (1 << 30))
    options = {} if form == "chat" else {"max_line": 1 << 20}
    with pytest.raises(AntecastError) as refused:
        audit(file, **options)
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize("form", TEXTS)
def test_a_compressed_stream_cut_short_is_refused(form: str, tmp_path: Path) -> None:
    packed = gzip.compress(TEXTS[form].encode())
    assert audit(put(tmp_path, packed, f"{name_of(form)}.gz")).outcome in ("sound", "causal", "kept")
    for cut in (9, len(packed) // 2):
        with pytest.raises(AntecastError, match=r"\.gz:\d+: the compressed stream is cut short"):
            audit(put(tmp_path, packed[:-cut], f"{name_of(form)}.gz"))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("form", ["govector clock first", "otlp", "chat", "plume"])
def test_what_stands_behind_a_compressed_stream_is_read_or_refused(form: str, pack: Any, tmp_path: Path) -> None:
    lines = TEXTS[form].encode().splitlines(keepends=True)
    first, second = (b"".join(some) for some in (lines[: len(lines) // 4 * 2], lines[len(lines) // 4 * 2 :]))
    whole = audit(put(tmp_path, TEXTS[form], name_of(form)))
    joined = pack(b"") + pack(first) + pack(second) + pack(b"")
    assert str(audit(put(tmp_path, joined, f"packed-{name_of(form)}"))).split("\n")[0] == str(whole).split("\n")[0]
    for behind in (b"what else there is", second, b"X" + pack(second)[1:], pack(second)[:3]):
        with pytest.raises(AntecastError):
            audit(put(tmp_path, pack(first) + behind, f"packed-{name_of(form)}"))


@pytest.mark.parametrize("end", ["\r", "\v", "\x85", "\u2028"])
@pytest.mark.parametrize("form", TEXTS)
def test_other_ends_of_lines_never_make_a_shorter_log_that_is_sound(form: str, end: str, tmp_path: Path) -> None:
    whole = audit(put(tmp_path, TEXTS[form], name_of(form)))
    try:
        other = audit(put(tmp_path, TEXTS[form].replace("\n", end), name_of(form)))
    except AntecastError:
        return
    assert other.outcome == "inconclusive" or str(other).split("\n")[0] == str(whole).split("\n")[0]


def test_the_end_of_a_line_in_the_text_of_an_event_is_no_event(tmp_path: Path) -> None:
    text = 'a {"a": 1}\n10 %\r20 %\r{done}\nb {"b": 1}\nends\n'
    assert audit(put(tmp_path, text), format="govector").counts["events"] == 2
    regex = r"(?<clock>\{.*?\}) (?<host>\S+): (?<event>.*)"
    assert audit(put(tmp_path, '{"a": 1} a: 10 %\r20 %\n'), regex=regex).counts["events"] == 1
    with pytest.raises(InputError, match=r":1: several events on one line"):
        audit(put(tmp_path, '{"a": 1} a: one\r{"a": 2} a: two\n'), regex=regex)


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32"])
@pytest.mark.parametrize("form", FOREIGN)
def test_an_encoding_with_a_mark_is_named(form: str, encoding: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f":1: the file is {encoding}; UTF-8 is expected"):
        audit(put(tmp_path, TEXTS[form].encode(encoding)))


@pytest.mark.parametrize("form", FOREIGN)
def test_files_of_two_formats_are_refused_by_name(form: str, tmp_path: Path) -> None:
    other = "plume" if form.startswith("govector") else "govector one line"
    files = [put(tmp_path, TEXTS[form], "a.txt"), put(tmp_path, TEXTS[other], "b.txt")]
    with pytest.raises(InputError, match=r"b\.txt: this file is .*a\.txt is .*one format"):
        audit(files)


@pytest.mark.parametrize("form", FOREIGN)
def test_two_formats_in_one_file_are_refused_where_the_second_begins(form: str, tmp_path: Path) -> None:
    other = PLUME if form.startswith("govector") else 'h1 {"h1": 1}\nwhat happened\n'
    file = put(tmp_path, TEXTS[form] + other)
    if form == "govector one line":  # a line without a clock may stand between events; it is named
        assert any("30 lines have no clock" in note for note in audit(file).notes)
        return
    if form == "git-raw":
        assert audit(file).outcome == "sound"  # text behind the last commit is part of its message
        return
    with pytest.raises(InputError) as refused:
        audit(file)
    assert refused.value.line is not None and refused.value.line >= TEXTS[form].count("\n")


# Vector clocks.


def judged(folder: Path, events: list[Any], layout: str, **options: Any) -> Any:
    return audit(put(folder, govector(events, layout)), **options)


def line_of(event: int, layout: str) -> int:
    return {"clock first": 2 * event + 1, "event first": 2 * event + 2, "one line": event + 1}[layout]


def receive(host: str | None = None) -> int:
    """An event late in the log that got news from another host, and changed its clock by that."""
    return max(
        place for place, (own, _, text) in enumerate(EVENTS) if text.startswith("got") and host in (None, own)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_clock_that_goes_back_is_named(layout: str, tmp_path: Path) -> None:
    events, place = list(EVENTS), receive()
    host, clock, text = events[place]
    part = next(name for name in clock if name != host and clock[name] > 1)
    events[place] = (host, clock | {part: 0}, text)
    verdict = judged(tmp_path, events, layout)
    rows = [row for row in verdict.violations.to_pylist() if row["line"] == line_of(place, layout)]
    assert verdict.outcome == "violated" and rows, verdict


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_clock_from_nowhere_is_named(layout: str, tmp_path: Path) -> None:
    for part, value in (("h9", 1), ("h0", 999)):
        events = list(EVENTS)
        place = max(each for each, (own, _, _) in enumerate(EVENTS) if own != part)
        host, clock, text = events[place]
        events[place] = (host, clock | {part: value}, text)
        verdict = judged(tmp_path, events, layout)
        rows = verdict.violations.to_pylist()
        assert ("clock from nowhere", line_of(place, layout)) in {(row["kind"], row["line"]) for row in rows}
        assert judged(tmp_path, events, layout, complete=["h1", "h2"]).outcome in ("inconclusive", "violated")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_event_that_is_there_twice_is_named(layout: str, tmp_path: Path) -> None:
    verdict = judged(tmp_path, [*EVENTS[:11], EVENTS[10], *EVENTS[11:]], layout)
    (row,) = verdict.violations.to_pylist()
    assert (row["kind"], row["line"], row["other_line"]) == (
        "counted twice",
        line_of(11, layout),
        line_of(10, layout),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_lost_event_is_a_gap_that_is_named_and_never_sound_if_others_know_it(
    layout: str, tmp_path: Path
) -> None:
    for place in range(len(EVENTS)):
        host, clock, _ = EVENTS[place]
        later = [other for other in EVENTS[place + 1 :] if other[0] == host]
        known = any(other[1].get(host) == clock[host] for other in EVENTS if other[0] != host)
        verdict = judged(tmp_path, [*EVENTS[:place], *EVENTS[place + 1 :]], layout)
        if known:
            assert verdict.outcome == ("inconclusive" if later else "violated"), place
        elif later:
            assert verdict.outcome == "sound" and any(
                f"{host} has no event {clock[host]}" in x for x in verdict.notes
            )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_swapped_deliveries_are_named(layout: str, tmp_path: Path) -> None:
    """Two events of a host with what they knew of others exchanged."""
    events = list(EVENTS)
    late = receive()
    host = events[late][0]
    early = next(place for place, (own, _, _) in enumerate(events) if own == host)
    swap = {early: late, late: early}
    for place, other in swap.items():
        own, clock, text = EVENTS[place]
        events[place] = (own, {**EVENTS[other][1], own: clock[own]}, text)
    verdict = judged(tmp_path, events, layout)
    lines = {row["line"] for row in verdict.violations.to_pylist()}
    assert verdict.outcome == "violated" and lines & {line_of(place, layout) for place in range(early, late + 1)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_renamed_host_is_named(layout: str, tmp_path: Path) -> None:
    events = [*EVENTS]
    events[20] = ("stranger", *events[20][1:])
    verdict = judged(tmp_path, events, layout)
    assert ("no own count", line_of(20, layout)) in {
        (row["kind"], row["line"]) for row in verdict.violations.to_pylist()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shuffled_file_is_said_to_be_so_and_violated_where_order_is_asked_for(
    layout: str, tmp_path: Path
) -> None:
    events = [*EVENTS[20:], *EVENTS[:20]]
    verdict = judged(tmp_path, events, layout)
    assert any("order of the file is not causal" in note for note in verdict.notes)
    assert judged(tmp_path, events, layout, ordered=True).found["file out of order"] > 0
    assert judged(tmp_path, EVENTS, layout, ordered=True).outcome == "sound"


# Traces.

PARENTS = {"git-tabbed", "git-raw"}


@pytest.mark.parametrize("form", TRACES)
def test_a_child_before_its_parent_is_named_at_its_line(form: str, tmp_path: Path) -> None:
    spans = shifted(SPANS, "c3", -150_000)
    text = TRACES[form](spans)
    verdict = audit(put(tmp_path, text))
    (row,) = [row for row in verdict.violations.to_pylist() if row["kind"] == "child before parent"]
    assert "c3" in "\n".join(text.split("\n")[row["line"] - 1 : row["line"] + 8])
    assert len(verdict.witness.events) == 2 and "before its parent" in verdict.witness.words


@pytest.mark.parametrize("form", TRACES)
def test_a_lost_parent_leaves_the_verdict_open_and_is_named(form: str, tmp_path: Path) -> None:
    verdict = audit(put(tmp_path, TRACES[form](tuple(span for span in SPANS if span.span != "b2"))))
    assert verdict.outcome == "inconclusive"
    assert any("b2" in note and "would settle it" in note for note in verdict.notes)


@pytest.mark.parametrize("form", TRACES)
def test_a_trace_that_lost_its_last_span_says_that_all_spans_are_assumed_to_be_there(
    form: str, tmp_path: Path
) -> None:
    """The span that starts too early has no children: nothing shows that it was there."""
    early = shifted(SPANS, "d4", -300_000)
    assert audit(put(tmp_path, TRACES[form](early))).outcome == "violated"
    verdict = audit(put(tmp_path, TRACES[form](tuple(span for span in early if span.span != "d4"))))
    noun = "commit" if form in PARENTS else "span"
    assert verdict.outcome == "sound" and f"assumed: the log has every {noun}" in verdict.notes


@pytest.mark.parametrize("form", TRACES)
def test_a_parent_from_nowhere_leaves_the_verdict_open(form: str, tmp_path: Path) -> None:
    spans = tuple(replace(span, parent="ff") if span.span == "e5" else span for span in SPANS)
    assert audit(put(tmp_path, TRACES[form](spans))).outcome == "inconclusive"


@pytest.mark.parametrize("form", TRACES)
def test_a_span_that_is_there_twice_is_named(form: str, tmp_path: Path) -> None:
    verdict = audit(put(tmp_path, TRACES[form]((*SPANS, SPANS[2]))))
    assert verdict.found["same id twice"] == 1 and verdict.outcome == "violated"


@pytest.mark.parametrize("form", sorted(set(TRACES) - PARENTS))
def test_an_end_before_the_start_is_named(form: str, tmp_path: Path) -> None:
    spans = tuple(replace(span, end=span.start - 1000) if span.span == "d4" else span for span in SPANS)
    verdict = audit(put(tmp_path, TRACES[form](spans)))
    assert verdict.found["response before request"] == 1


@pytest.mark.parametrize("form", sorted(set(TRACES) - PARENTS - {"spans-csv"}))
def test_a_response_before_the_server_starts_is_named(form: str, tmp_path: Path) -> None:
    spans = shifted(shifted(SPANS, "c3", 400_000), "d4", 400_000)
    verdict = audit(put(tmp_path, TRACES[form](spans)))
    assert verdict.found["response before request"] == 1 and "has the response" in verdict.witness.words


@pytest.mark.parametrize("form", TRACES)
def test_a_span_that_is_its_own_ancestor_is_named(form: str, tmp_path: Path) -> None:
    spans = tuple(replace(span, parent="d4") if span.span == "b2" else span for span in SPANS)
    verdict = audit(put(tmp_path, TRACES[form](spans)))
    assert verdict.found["cycle"] == 1


@pytest.mark.parametrize("form", sorted(set(TRACES) - PARENTS))
def test_the_order_of_spans_in_a_file_means_nothing(form: str, tmp_path: Path) -> None:
    assert audit(put(tmp_path, TRACES[form](SPANS[::-1]))).outcome == "sound"


@pytest.mark.parametrize("form", sorted(PARENTS))
def test_commits_in_the_wrong_order_are_said_to_be_so(form: str, tmp_path: Path) -> None:
    verdict = audit(put(tmp_path, TRACES[form](SPANS[::-1])))
    assert any("order of the file is not causal" in note for note in verdict.notes)
    assert audit(put(tmp_path, TRACES[form](SPANS[::-1])), ordered=True).outcome == "violated"


def test_a_time_that_is_none_is_refused_at_its_line(tmp_path: Path) -> None:
    for form in set(TRACES) - PARENTS - {"jaeger", "zipkin", "otlp-pretty", "otel-console"}:
        lines = TRACES[form](SPANS).splitlines()
        lines[2] = lines[2].replace("000Z", "xZ") if "console" in form else lines[2].replace("1700000000", "17x")
        with pytest.raises(InputError, match=":3: "):
            audit(put(tmp_path, "\n".join(lines)))


# Broadcasts and deliveries.


def chat_with(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Any:
    return audit(put(folder, chat(rows), "log.jsonl"), **options)


def test_swapped_deliveries_of_a_chat_are_named(tmp_path: Path) -> None:
    rows = [*CHAT[:4], {**CHAT[5], "pos": 0}, {**CHAT[4], "pos": 1}]
    verdict = chat_with(tmp_path, rows)
    assert verdict.outcome == "violated" and verdict.witness.node == "c"


def test_every_lost_row_of_a_chat_is_noticed_but_the_last_of_a_node(tmp_path: Path) -> None:
    for place in range(len(CHAT)):
        rows = [*CHAT[:place], *CHAT[place + 1 :]]
        last = place in (1, 3, 5)
        broadcast = CHAT[place]["kind"] == "broadcast"
        verdict = chat_with(tmp_path, rows, dense=["pos"])
        assert verdict.outcome == ("causal" if last and not broadcast else "inconclusive"), place


def test_a_row_that_is_there_twice_or_of_another_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"log\.jsonl:7: .*two events at one position"):
        chat_with(tmp_path, [*CHAT, CHAT[2]])
    with pytest.raises(InputError, match=r"log\.jsonl:4: "):
        chat_with(tmp_path, [*CHAT[:3], {**CHAT[3], "node": "x"}, *CHAT[4:]])


def test_a_shuffled_chat_is_the_same_chat(tmp_path: Path) -> None:
    assert chat_with(tmp_path, CHAT[::-1]).outcome == "causal"


@pytest.mark.parametrize("key", ["pos", "node"])
def test_keys_twice_in_an_object_are_refused(key: str, tmp_path: Path) -> None:
    line = json.dumps(CHAT[0])[:-1] + f', "{key}": 0}}\n'
    with pytest.raises(InputError):
        audit(put(tmp_path, line + chat(), "log.jsonl"))
