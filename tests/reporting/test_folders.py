"""The pages of sweeps, audits and reproductions are made from the files in their folders, whatever these say."""

import json
from statistics import mean

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.core import InputError
from antecast.history.confidence import Estimate, t_quantile
from antecast.history.log import read_events, read_samples
from antecast.history.parts import MadeRun, Parts, write_part
from antecast.history.store import Store
from antecast.papers.findings import Results
from antecast.papers.job import Job
from antecast.papers.output import read_manifest, write_manifest, write_results
from antecast.papers.paper import load_paper
from antecast.reporting.audit import audit_page
from antecast.reporting.page import Chart, render
from antecast.reporting.plot import Area, Dot, Line, Segment
from antecast.reporting.study import rebuild
from antecast.reporting.sweep import sweep_page
from antecast.reporting.sweep_charts import SERIES
from antecast.spark.folder import MEASURED

FINE = {
    "verdict": "causal",
    "promised": True,
    "broken": "",
    "early": 0,
    "late": 0,
    "deliveries": 1000,
    "duplicates": 0,
    "before_broadcast": 0,
    "events": 100,
    "wall_seconds": 0.5,
    "cpu_seconds": 0.5,
    "delivery_ratio": 1.0,
    "latency_mean_ns": 2e6,
    **{
        f"latency_{name}_ns": at * 1e6
        for at, name in enumerate(("min", "p5", "p25", "p50", "p75", "p95", "p99", "max"))
    },
    "control_bytes_per_broadcast": 64.0,
    "frames_per_delivery": 2.0,
}
BROKEN = FINE | {"verdict": "violated", "broken": "causal", "early": 3, "late": 2}
FAILED = {"error": "ran longer than 1 s"}


def make_sweep(folder, fields, rows):
    """A sweep as `antecast sweep` leaves it: a row has a value for each field, a seed, and what was measured."""
    columns = [field.replace(".", "_") for field in fields]
    listing = [
        {"index": i, "run": f"run{i}", "seed": seed} | dict(zip(columns, values, strict=True)) | measured
        for i, (values, seed, measured) in enumerate(rows)
    ]
    names = ["index", "run", *columns, "seed", *MEASURED]
    data = {name: [row.get(name) for row in listing] for name in names}
    arrays = {name: pa.array(data[name], MEASURED.get(name)) for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(arrays), folder / "runs.parquet")
    study = {"name": "demo", "scenario": {"nodes": 4}, "fields": sorted(fields)}
    (folder / "study.json").write_text(json.dumps({"study": study, "command": ["antecast", "sweep", "demo.toml"]}))
    logs, none = dict.fromkeys(("events", "samples"), tuple), dict.fromkeys(("events", "samples"), 0)
    for row in listing:
        if row.get("error") is None:
            write_part(Store(folder), [MadeRun(row["run"], {}, row, {}, logs, none)], pa.schema([]))
    return folder


def titles(page):
    return [section.title for section in page.sections]


def section(page, title):
    return next(each for each in page.sections if each.title == title)


def charts(page):
    return [block for each in page.sections for block in each.blocks if isinstance(block, Chart)]


LOSS = [
    ((loss, name), seed, FINE | {"latency_mean_ns": 1e6 * (10 * loss + seed + (name == "fifo"))})
    for loss in (0.0, 0.1)
    for name in ("vector", "fifo")
    for seed in (1, 2, 3)
]


def test_a_sweep_in_which_all_went_well(tmp_path):
    page = sweep_page(make_sweep(tmp_path, ["network.loss", "protocol.name"], LOSS))
    assert (page.tone, page.verdict) == ("good", "12 of 12 runs kept causal order.")
    assert titles(page) == ["Against network.loss", "Against protocol.name", "All points", "Parameters"]
    assert page.facts["command"] == "antecast sweep demo.toml"
    numbers = {row["name"]: row["value"] for row in pq.read_table(tmp_path / "report/summary.parquet").to_pylist()}
    assert (numbers["runs"], numbers["causal"], numbers["failed"], numbers["events"]) == (12, 12, 0, 1200)
    assert numbers["control_bytes_per_broadcast_mean"] == 64


def test_means_have_student_s_intervals(tmp_path):
    sweep_page(make_sweep(tmp_path, ["network.loss", "protocol.name"], LOSS))
    rows = pq.read_table(tmp_path / "report" / "means.parquet").to_pylist()
    (row,) = [
        row
        for row in rows
        if (row["parameter"], row["value"], row["series"]) == ("network.loss", "0.1", "fifo")
        and row["metric"] == "mean latency"
    ]
    values = [10 * 0.1 + seed + 1 for seed in (1, 2, 3)]
    half = t_quantile(0.975, 2) * 1.0 / 3**0.5
    assert row["n"] == 3 and row["mean"] == pytest.approx(mean(values))
    assert (row["low"], row["high"]) == pytest.approx((mean(values) - half, mean(values) + half))


def test_numbers_have_bands_and_names_have_lines(tmp_path):
    page = sweep_page(make_sweep(tmp_path, ["network.loss", "protocol.name"], LOSS))
    assert {type(mark) for mark in charts(page)[0].plots[0].marks} == {Area, Line}
    assert {type(mark) for mark in charts(page)[-2].plots[0].marks} == {Segment, Dot}
    for chart in charts(page):
        assert chart.alternative and "runs.parquet." in chart.note


def test_latency_has_a_curve_for_each_value(tmp_path):
    rows = [((loss,), seed, FINE | {"latency_p50_ns": 1e6 * (loss + seed)}) for loss in (2, 4) for seed in (1, 3)]
    page = sweep_page(make_sweep(tmp_path, ["network.loss"], rows))
    chart = charts(page)[-1]
    assert chart.alternative.startswith("Half of the deliveries come within 4 ms with network.loss 2 to 6 ms with")
    points = pq.read_table(tmp_path / "report/latency.parquet").to_pylist()
    assert [(row["value"], row["latency_ns"], row["n"]) for row in points if row["share"] == 0.5] == [
        ("2", 4e6, 2),
        ("4", 6e6, 2),
    ]
    assert sum(len(mark.points) for mark in chart.plots[0].marks) == len(points) == 16


def test_many_values_are_thinned_and_older_runs_left_out(tmp_path):
    rows = [((size,), 1, FINE) for size in range(3 * SERIES)]
    chart = charts(sweep_page(make_sweep(tmp_path / "many", ["nodes"], rows)))[-1]
    assert f"Cut: {SERIES} of {3 * SERIES} values." in chart.note
    older = [((size,), 1, FINE | {"latency_p5_ns": None}) for size in range(3)]
    titles = [each.title for each in charts(sweep_page(make_sweep(tmp_path / "old", ["nodes"], older)))]
    assert titles and chart.title not in titles


def test_durations_are_numbers_of_seconds(tmp_path):
    rows = [((text,), 1, FINE) for text in ("1s", "500ms", "2min")]
    page = sweep_page(make_sweep(tmp_path, ["drain"], rows))
    (line,) = [mark for mark in charts(page)[0].plots[0].marks if isinstance(mark, Line)]
    assert [x for x, _ in line.points] == [0.5, 1.0, 120.0]
    assert "Single runs have no interval." in charts(page)[0].note


def test_fields_that_vary_together_make_no_series(tmp_path):
    rows = [((nodes, f"{nodes}s"), seed, FINE) for nodes in (8, 16) for seed in (1, 2)]
    page = sweep_page(make_sweep(tmp_path, ["nodes", "duration"], rows))
    assert charts(page)[0].plots[0].series == []


def test_too_many_series_are_averaged_and_the_page_says_so(tmp_path):
    rows = [((loss, size), 1, FINE) for loss in (0.0, 0.1) for size in range(SERIES + 1)]
    page = sweep_page(make_sweep(tmp_path, ["network.loss", "nodes"], rows))
    assert section(page, "Against network.loss").blocks[0].text == "Cut: means are taken over all values of nodes."


def test_runs_that_failed_are_listed_with_their_reasons(tmp_path):
    page = sweep_page(make_sweep(tmp_path, ["nodes"], [((4,), 1, FINE), ((8,), 1, FAILED)]))
    assert (page.tone, page.verdict) == ("bad", "1 of 2 runs kept causal order; 1 failed.")
    assert page.sections[0].title == "Failed runs"
    assert page.sections[0].blocks[0].rows == [("8", "1", "ran longer than 1 s", "run1")]


def put_run(sweep, name, folder):
    """Put the logs of a run folder into a sweep, under a name."""
    logs = {"events": read_events(folder), "samples": read_samples(folder)}
    made = MadeRun(
        run=name,
        point={},
        row={},
        manifest=json.loads((folder / "manifest.json").read_text()),
        logs={table: log.to_batches for table, log in logs.items()},
        rows={table: log.num_rows for table, log in logs.items()},
    )
    write_part(Store(sweep), [made], pa.schema([]))


def test_runs_that_are_missing_are_said_first(tmp_path):
    folder = make_sweep(tmp_path, ["nodes"], [((4,), 1, FINE), ((8,), 1, FINE), ((8,), 2, FAILED)])
    about = json.loads((folder / "study.json").read_text()) | {"runs": 5}
    (folder / "study.json").write_text(json.dumps(about))
    (part,) = (name for name, each in Parts(Store(folder)).refresh().found.items() if each.runs[0].run == "run1")
    lost = folder / "events" / f"{part}.parquet"
    lost.unlink()
    page = sweep_page(folder)
    assert page.tone == "bad" and page.verdict.startswith("3 runs missing; 2 of 3 runs kept causal order")
    first, table = page.sections[0].blocks
    assert page.sections[0].title == "Missing runs"
    assert first.text == "2 runs of the study are not made yet: the same command makes what is missing."
    assert table.rows == [("8", "1", f"{lost} is lost", "run1")]


def test_broken_promises_come_first_with_a_witness(tmp_path, violated):
    folder = make_sweep(tmp_path / "sweep", ["nodes"], [((4,), 1, FINE), ((8,), 1, BROKEN)])
    put_run(folder, "run1", violated)
    page = sweep_page(folder)
    assert (page.tone, page.verdict) == ("bad", "1 of 2 runs kept causal order; 1 broke what they promise.")
    table, remark, words, *_ = page.sections[0].blocks
    assert table.rows == [("8", "1", "causal", "3", "2", "0", "0", "0.30 %", "run1")]
    assert "--run run1" in remark.text and "before" in words.text
    assert pq.read_table(folder / "report" / "witness.parquet").num_rows >= 4


def test_buffers_are_shown_over_time_for_each_value(tmp_path, violated):
    ended = {"ended_ns": 5 * 10**9}
    folder = make_sweep(tmp_path / "sweep", ["nodes"], [((4,), 1, FINE | ended), ((8,), 1, FINE | ended)])
    put_run(folder, "run0", violated)
    put_run(folder, "run1", violated)
    page = sweep_page(folder)
    shown = section(page, "Buffers over time")
    assert shown.blocks[0].text == "Entries at a node, the mean over all nodes and runs."
    assert all(block.alternative.endswith("The curves of 4 and 8 are the same.") for block in shown.blocks[1:])
    samples = read_samples(violated).to_pandas()
    steps = samples.assign(step=samples["t"] // 50_000_001)
    table = pq.read_table(folder / "report" / "buffers.parquet").to_pandas()
    for value in ("4", "8"):
        own = table[table["value"] == value]
        for gauge, rows in steps.groupby("gauge", observed=True):
            means = rows.groupby("step")["value"].mean()
            assert own[own["gauge"] == gauge]["mean"].tolist() == pytest.approx(means.tolist())
    drawn = {block.title for block in shown.blocks[1:]}
    most = samples.groupby("gauge", observed=True)["value"].max()
    assert drawn == {name.replace("_", " ") for name in most[most > 0].index} and drawn


def test_what_was_never_promised_is_not_blamed(tmp_path):
    free = BROKEN | {"promised": False, "broken": ""}
    page = sweep_page(make_sweep(tmp_path, ["nodes"], [((4,), 1, FINE), ((8,), 1, free)]))
    assert page.tone == "plain"  # kept, but not all that the tick would stand for
    assert page.verdict == (
        "Every promise was kept: 1 of 2 runs kept causal order; 1 did not, and had not promised it."
    )


def test_a_quantity_has_one_unit_on_the_whole_page(tmp_path):
    """Latencies of 0.4 ms and of 3 s, and sizes of 64 B and of 9 kB, stood in two units each."""
    slow = FINE | {"latency_mean_ns": 3e9, "latency_p95_ns": 4e9, "control_bytes_per_broadcast": 9_000.0}
    quick = FINE | {"latency_mean_ns": 4e5, "latency_p95_ns": 5e5}
    page = sweep_page(make_sweep(tmp_path, ["nodes"], [((4,), 1, quick), ((8,), 1, slow)]))
    shown = {each.title: each for each in charts(page)}
    assert shown["mean latency"].plots[0].x.title == "nodes"
    assert shown["mean latency"].plots[0].y.title == "mean latency (ms)"
    assert shown["mean latency"].alternative == "From 0.4 ms with nodes 4 to 3,000 ms with nodes 8."
    rows = section(page, "All points").blocks[0].rows
    assert [row[4:7] for row in rows] == [("0.4 ms", "0.5 ms", "64 B"), ("3,000 ms", "4,000 ms", "9,000 B")]
    assert [each.value for each in page.figures][2:4] == ["1,500 ms", "4,532 B"]


def test_deliveries_too_early_are_shares_that_compare(tmp_path):
    short, long = (BROKEN | {"early": 5, "deliveries": count} for count in (10, 10_000))
    page = sweep_page(make_sweep(tmp_path, ["nodes"], [((4,), 1, short), ((8,), 1, long)]))
    (early,) = [each for each in charts(page) if each.title == "deliveries too early"]
    assert early.alternative == "From 0.05 % with nodes 8 to 50.00 % with nodes 4."
    assert early.plots[0].y.share


def test_intervals_of_a_sweep_do_not_fall_below_zero(tmp_path):
    rows = [((4,), seed, FINE | {"latency_mean_ns": 1e6 * value}) for seed, value in enumerate((0, 0, 9))]
    rows += [((8,), 1, FINE)]
    page = sweep_page(make_sweep(tmp_path, ["nodes"], rows))
    (band,) = [mark for mark in charts(page)[1].plots[0].marks if isinstance(mark, Area)]
    assert band.points[0][1] == 0.0
    low = [row["low"] for row in pq.read_table(tmp_path / "report" / "means.parquet").to_pylist()]
    assert min(each for each in low if each is not None) < 0  # the table keeps what Student says


def test_lifetimes_stand_in_the_order_of_their_lengths(tmp_path):
    lives = ("20min", "5min", "100s", "1h")
    rows = [((life, name), 1, FINE) for life in lives for name in ("vector", "delta")]
    page = sweep_page(make_sweep(tmp_path, ["protocol.lifetime", "protocol.name"], rows))
    ordered = ["100s", "5min", "20min", "1h"]
    (chart,) = [
        each for each in section(page, "Against protocol.name").blocks if getattr(each, "title", "") == "delivered"
    ]
    assert [each.name for each in chart.plots[0].series] == ordered
    assert [row[0] for row in section(page, "All points").blocks[0].rows] == [
        each for each in ordered for _ in "ab"
    ]
    assert section(page, "Parameters").blocks[0].rows[0] == ("protocol.lifetime", "100s, 5min, 20min, 1h")


def test_a_sweep_without_anything_that_varies(tmp_path):
    page = sweep_page(make_sweep(tmp_path, [], [((), 1, FINE), ((), 2, FINE)]))
    assert titles(page) == ["Latency", "All points", "Parameters"]


# Audits.


COUNTS = dict.fromkeys(("nodes", "deliveries", "early", "late", "duplicates", "unknown", "before_broadcast"), 0)
COUNTS |= {"messages": 4, "nodes": 3, "deliveries": 9, "pairs": None}
WITNESS = {
    "run": None,
    "node": "ada",
    "chain": ["cleo:1", "ben:2"],
    "words": "node ada delivered ben:2 before cleo:1.",
    "diagram": "node cleo   node ben",
    "events": [
        {"node": "cleo", "pos": 3, "verb": "broadcast", "message": "cleo:1"},
        {"node": "ben", "pos": 4, "verb": "broadcast", "message": "ben:2"},
        {"node": "ada", "pos": 4, "verb": "deliver", "message": "ben:2"},
        {"node": "ada", "pos": 5, "verb": "deliver", "message": "cleo:1"},
    ],
}


def make_audit(folder, verdict, counts, violations=(), **more):
    folder.mkdir(parents=True, exist_ok=True)
    result = {"verdict": verdict, "counts": COUNTS | counts, "files": ["log.csv"], "columns": {"node": "host"}}
    (folder / "verdict.json").write_text(json.dumps(result | more))
    rows = [
        {"node": node, "pos": 4, "origin": "ben", "seq": 2, "problem": problem, "cause_origin": "cleo"}
        | {"cause_seq": 1, "cause_pos": 5}
        for node, problem in violations
    ]
    if rows:
        pq.write_table(pa.Table.from_pylist(rows), folder / "violations.parquet")
    return folder


def test_an_audit_that_found_violations(tmp_path):
    found = [("ada", "early"), ("ada", "late"), ("dora", "early")]
    page = audit_page(make_audit(tmp_path, "violated", {"early": 5, "late": 1}, found, witness=WITNESS))
    assert page.tone == "bad" and "5 too early, 1 too late" in page.verdict
    assert titles(page) == ["Witness", "Violations", "Counts", "Files read"]
    (diagram,) = [block for block in page.sections[0].blocks if isinstance(block, Chart)]
    assert "possible order" in diagram.alternative
    plot = section(page, "Violations").blocks[0]
    assert "3 violations are listed of 6" in plot.note
    rows = pq.read_table(tmp_path / "report" / "violations-by-node.parquet").to_pylist()
    assert rows[0] == {"node": "ada", "problem": "early", "violations": 1}


def test_an_inconclusive_audit_says_what_is_missing(tmp_path):
    folder = make_audit(tmp_path, "inconclusive", {"unknown": 2}, unknown_examples=["x:1 delivered at node ada"])
    page = audit_page(folder)
    assert page.tone == "plain" and "2 deliveries have no broadcast in the log" in page.verdict
    assert titles(page)[0] == "What cannot be judged"
    assert page.sections[0].blocks[1].rows == [("x:1 delivered at node ada",)]


def test_a_causal_audit_is_short(tmp_path):
    page = audit_page(make_audit(tmp_path, "causal", {}))
    assert page.tone == "good" and titles(page) == ["Counts", "Files read"]
    assert "log.csv" in render(page) and "host" in render(page)


def test_violations_with_one_cause_are_one_row(tmp_path):
    found = [("ada", "early")] * 40 + [("dora", "early"), ("dora", "late")]
    page = audit_page(make_audit(tmp_path, "violated", {"early": 41, "late": 1}, found))
    table = section(page, "Violations").blocks[1]
    assert [row[:5] for row in table.rows] == [
        ("cleo:1", "early", "41", "97.62 %", "2"),
        ("cleo:1", "late", "1", "2.38 %", "1"),
    ]
    assert table.rows[0][5] == "ben:2 at node ada, position 4; the cause at position 5"


def test_an_audit_of_nothing_is_not_green(tmp_path):
    page = audit_page(make_audit(tmp_path, "causal", {"deliveries": 0}))
    assert page.tone == "plain" and page.verdict.startswith("Nothing was delivered")


def test_violations_of_an_audit_are_shares_that_compare(tmp_path):
    page = audit_page(make_audit(tmp_path, "violated", {"early": 3}, [("ada", "early")]))
    (early,) = [figure for figure in page.figures if figure.label == "too early"]
    assert (early.value, early.note) == ("33.33 %", "3 deliveries")


@pytest.mark.parametrize("text", ["{", "[]", '{"verdict": "fine"}', '{"verdict": "causal"}'])
def test_a_broken_verdict_is_one_error(tmp_path, text):
    (tmp_path / "verdict.json").write_text(text)
    with pytest.raises(InputError, match=r"verdict\.json"):
        audit_page(tmp_path)


# Reproductions.


def make_results():
    paper = load_paper("barrier")
    findings = [
        paper.figure("Table II", "received", "20'", Estimate(50_000)),
        paper.figure("Table II", "received", "10'", Estimate(99_999)),
    ]
    curve = pa.table({"lifetime": ["20'"] * 2, "metric": ["ltcy"] * 2, "share": [0.0, 1.0], "seconds": [0.0, 9.0]})
    return Results(study="barrier", findings=findings, figures={"fig-5": curve}, notes=["One network.", "Small."])


def test_a_reproduction_is_rebuilt_from_its_files(tmp_path):
    folder = tmp_path / "barrier-quick"
    results = make_results()
    write_results(results, folder)
    page = rebuild(folder)
    html = render(page)
    assert page.verdict == "Of 2 figures and statements 1 agrees, 1 differs."
    assert "50,000 (50,365)" in html and "One network." in html and "Small." in html
    assert len(charts(page)) == 1
    assert page.facts["command"] == "antecast reproduce barrier --quick"
    (folder / "manifest.json").write_text(json.dumps({"command": "antecast reproduce barrier --seeds 3"}))
    assert rebuild(folder).facts["command"] == "antecast reproduce barrier --seeds 3"


def test_a_reproduction_remembers_its_command(tmp_path):
    from antecast.cli.reproduce import _report

    folder = tmp_path / "barrier"
    write_results(make_results(), folder)
    job = Job(None, "barrier", folder, quick=False, seeds=3, options={"date": "2024-05-06"})
    for _ in range(2):  # a call that was interrupted, and the one that went on
        write_manifest(job, seconds=1.5)
    assert read_manifest(folder)["seconds"] == 3.0
    page = _report([(folder, make_results())], quick=False, options={"date": "2024-05-06"}, seeds=3)
    first = page.read_text(encoding="utf-8")
    command = "antecast reproduce barrier --seeds 3 --date 2024-05-06"
    assert command in first
    assert rebuild(folder).facts["command"] == command
    assert render(rebuild(folder)) == first


def test_a_reproduction_of_nothing_known_is_refused(tmp_path):
    write_results(make_results(), tmp_path)
    (tmp_path / "results.md").write_text("# weather: “…”\n")
    with pytest.raises(InputError, match="'weather' is not a study"):
        rebuild(tmp_path)
