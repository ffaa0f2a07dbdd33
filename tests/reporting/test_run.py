"""The page of a run says what its log says, cuts are stated, and every plot has its words and its Parquet file."""

import json
import re
import shutil
import tomllib
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, InputError
from antecast.history import metrics, oracle
from antecast.history.audit import audit
from antecast.history.log import iter_events, iter_samples, read_events, read_samples
from antecast.history.measure import gauges_over_time, measure
from antecast.reporting import spacetime
from antecast.reporting.diagram import witness_diagram
from antecast.reporting.folders import command_line, subject_of
from antecast.reporting.page import Chart, TableBlock, Text, render
from antecast.reporting.plot import Dot, Limit
from antecast.reporting.run import run_page
from antecast.reporting.spacetime import MESSAGES, NODES, Past, parse_message
from antecast.sim.identity import run_id
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario
from antecast.text.toml import format_toml


def charts(page):
    return [block for section in page.sections for block in section.blocks if isinstance(block, Chart)]


def section(page, title):
    return next(each for each in page.sections if each.title == title)


@pytest.mark.parametrize("which", ["causal", "violated"])
def test_the_numbers_are_those_of_the_metrics(which, request):
    folder = request.getfixturevalue(which)
    events = read_events(folder)
    found = measure(lambda: iter_events(folder), applications=14)
    assert found.cost == metrics.overhead(events)
    assert found.ratio == pytest.approx(metrics.delivery_ratio(events))
    assert found.delivery == metrics.summarise(metrics.delivery_latency(events)["latency"])
    assert found.counts["receive"] == pc.sum(pc.equal(events["kind"], "receive")).as_py()
    assert pc.sum(found.wire["control_bytes"]).as_py() == found.cost.control_bytes
    assert pc.sum(found.wire["deliveries"]).as_py() == found.cost.deliveries
    whole = metrics.gauges(read_samples(folder)).to_pylist()
    ours = gauges_over_time(lambda: iter_samples(folder))
    for row in whole:
        own = ours.filter(pc.equal(ours["gauge"], row["gauge"]))
        assert pc.max(own["high"]).as_py() == row["max"]


def test_a_run_whose_messages_are_received_and_never_delivered_has_a_report(tmp_path):
    """Two clocks further apart than the protocol allows for: each node refuses what the other has broadcast."""
    scenario = make_scenario(
        {
            "nodes": 2,
            "duration": "20s",
            "protocol": {"name": "delta", "lifetime": "10s", "clock_bound": "1s"},
            "clocks": {"fixed": {"0": "100s"}},
            "workload": [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0}, {"t": "2s", "node": 1}]}],
        }
    )
    run(scenario, out=tmp_path / "run")
    page = run_page(tmp_path / "run")
    assert "none of them was delivered" in section(page, "Latency").blocks[0].alternative


def test_a_long_log_is_measured_on_a_sample_of_its_messages_always_the_same(causal):
    whole = measure(lambda: iter_events(causal), applications=14)
    sample, again = (measure(lambda: iter_events(causal), applications=14, sample_rows=500) for _ in range(2))
    assert sample.step > 1 and sample.cost == whole.cost and sample.counts == whole.counts
    assert 0 < sample.delivery.count < whole.delivery.count / 2
    assert sample.latency.equals(again.latency) and sample.ratios.equals(again.ratios)
    latency = metrics.delivery_latency(read_events(causal))
    times = set(latency["latency"].to_pylist())
    drawn = [row["seconds"] for row in sample.latency.to_pylist() if row["what"] == "delivered"]
    assert {round(1e9 * each) for each in drawn} <= times


def test_the_sample_is_stated(causal, monkeypatch):
    monkeypatch.setattr("antecast.reporting.run.measure", lambda *a, **k: measure(*a, **k | {"sample_rows": 500}))
    (latency,) = section(run_page(causal), "Latency").blocks
    assert re.search(r"Cut: every \d+th message is measured, [\d,]+ were broadcast", latency.note)


@given(seed=st.integers(1, 10**6), protocol=st.sampled_from(["vector", "r-broadcast", "fifo"]))
def test_the_past_that_is_drawn_is_that_of_the_definition(tmp_path_factory, seed, protocol):
    folder = tmp_path_factory.mktemp("run") / "run"
    plain = {
        "nodes": 5,
        "duration": "1s",
        "seed": seed,
        "protocol": {"name": protocol},
        "network": {"delay": {"kind": "uniform", "low": "1ms", "high": "300ms"}},
        "workload": [{"kind": "poisson", "rate": 3.0}, {"kind": "chatter", "answers": 0.5}],
    }
    run(make_scenario(plain), out=folder)
    truth = oracle.judge(read_events(folder))
    members = list(truth.past)
    past = Past(folder)
    sizes = {}
    for message, bits in truth.past.items():
        drawn, size = past.nearest(past.find(message.origin, message.seq))
        before = {f"{each.origin}:{each.seq}" for i, each in enumerate(members) if bits >> i & 1}
        assert size == len(before) and len(drawn) == min(size + 1, MESSAGES)
        assert {past.index.name(each) for each in drawn[1:]} <= before
        sizes[f"{message.origin}:{message.seq}"] = size
    best = past.telling()
    fits = [size for size in sizes.values() if size < MESSAGES]
    assert (best is None) == (not sizes)
    assert best is None or sizes[past.index.name(best)] == max(fits)


def test_a_diagram_stays_within_its_limits_and_says_what_it_leaves_out(violated):
    past = Past(violated)
    last = max(range(len(past.index)), key=lambda each: past.index.t[each])
    diagram = past.diagram(last)
    rows = diagram.table.to_pylist()
    assert len({row["message"] for row in rows}) == MESSAGES and len(diagram.nodes) == NODES
    assert all(row["sent"] is None or row["sent"] < row["seconds"] for row in rows)
    assert all(row["node"] in diagram.nodes for row in rows)
    assert f"the {MESSAGES - 1} messages of the past that are nearest to it are drawn" in diagram.cut
    assert f"{NODES} of 14 nodes" in diagram.cut


@pytest.mark.parametrize("place", [5, 150, -1])
def test_of_a_long_log_only_a_stretch_is_searched(violated, monkeypatch, place):
    """The one that holds the chosen message, wherever in the log it is; and without a choice the first."""
    monkeypatch.setattr(spacetime, "iter_events", lambda path, columns: read_events(path, columns).to_batches(500))
    events = read_events(violated)
    row = events.filter(pc.equal(events["kind"], "broadcast")).sort_by("t").to_pylist()[place]
    chosen = Past(violated, until=(row["origin"], row["seq"]), rows=400)
    message = chosen.find(row["origin"], row["seq"])
    assert message is not None and not chosen.whole and len(chosen.index) < 100
    assert "the past is looked for in" in chosen.diagram(message).cut
    first = Past(violated, rows=400)
    assert not first.whole and len(first.index) < 100 and first.telling() is not None
    assert (first.find(row["origin"], row["seq"]) is None) == (place != 5)


def test_a_causal_run_has_a_good_verdict_and_no_witness(causal):
    page = run_page(causal)
    assert page.tone == "good" and page.verdict.startswith("Causal order kept by vector in all")
    assert "Witness" not in [each.title for each in page.sections]


def test_a_violation_is_told_first_with_its_witness(violated):
    verdict = audit(read_events(violated), clock="global")
    page = run_page(violated, verdict=verdict)
    assert page.tone == "bad"
    assert page.verdict.startswith("Causal order violated by r-broadcast, which it does not promise to keep")
    assert f"{verdict.tally.early:,} too early" in page.verdict
    words, _, text = page.sections[0].blocks
    assert words == Text(verdict.witness.words[:1].upper() + verdict.witness.words[1:])
    assert text == Text(verdict.witness.diagram, pre=True)
    rows = pq.read_table(violated / "report" / "witness.parquet").to_pylist()
    assert [(row["node"], row["pos"], row["verb"], row["message"]) for row in rows] == [
        (str(event.node), event.pos, event.verb, event.message) for event in verdict.witness.events
    ]
    drawn = section(page, "Causal past").blocks[0]
    assert drawn.title == f"Message {verdict.witness.chain[-1]} and its causal past"


def test_a_broken_promise_is_called_one(violated, tmp_path):
    folder = shutil.copytree(violated, tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["scenario"]["protocol"] = {"name": "vector"}
    manifest["promised"] = ["causal", "fifo"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "violated by vector, a broken promise (causal, fifo)" in run_page(folder).verdict


def test_a_run_that_nobody_judged_says_so(causal):
    page = run_page(causal, judge=False)
    assert page.tone == "plain" and "not judged here" in page.verdict


@pytest.mark.parametrize("which", ["causal", "violated"])
def test_every_plot_has_words_and_a_parquet_file(which, request):
    folder = request.getfixturevalue(which)
    page = run_page(folder)
    assert len(charts(page)) >= 6
    for chart in charts(page):
        assert chart.title and len(chart.alternative) > 20
        (named,) = re.findall(r"Data: ([\w/-]+\.parquet)\.", chart.note)
        assert pq.read_table(folder / named).num_rows
    for each in (block for part in page.sections for block in part.blocks if isinstance(block, TableBlock)):
        assert any("Data: report/summary.parquet" in note for note in each.notes)
    assert {path.name for path in (folder / "report").iterdir()} == {
        name.removeprefix("report/") for name in page.facts["tables"].split(", ") if name.startswith("report/")
    }


def test_the_numbers_of_a_page_are_in_its_summary(causal):
    page = run_page(causal)
    numbers = {row["name"]: row["value"] for row in pq.read_table(causal / "report/summary.parquet").to_pylist()}
    assert numbers["events_deliver"] == pc.sum(pc.equal(read_events(causal)["kind"], "deliver")).as_py()
    assert f"{numbers['audit_deliveries']:,.0f} deliveries" in page.verdict
    figures = {each.label: each.value for each in page.figures}
    assert figures["median latency"] == f"{numbers['latency_p50_ns'] / 1e6:.0f} ms"
    assert figures["frames"] == f"{numbers['frames_per_delivery']:.3g}"


def test_latency_and_sizes_have_one_unit_each_on_the_whole_page(tmp_path):
    """Half within 20 ms and the slowest after seconds stood in two units."""
    slow = {"kind": "pareto", "least": "5ms", "shape": 0.8, "most": "5s"}
    values = {
        "nodes": 6,
        "duration": "2s",
        "workload": [{"kind": "poisson", "rate": 9.0}],
        "network": {"delay": slow},
    }
    run(make_scenario(values), out=tmp_path / "run")
    page = run_page(tmp_path / "run")
    latency = section(page, "Latency").blocks[0]
    times = re.findall(r"[\d,.]+ (ns|µs|ms|s|min)\b", latency.alternative)
    times += [each.value.split()[1] for each in page.figures[1:3]] + [page.figures[2].note.split()[-1]]
    assert len(times) == 6 and set(times) == {"ms"} and latency.plots[0].x.title.endswith("(ms)")
    _, table = section(page, "Overhead").blocks
    assert all(len({row[column].split()[-1] for row in table.rows[1:]}) == 1 for column in (1, 2, 3))
    control = next(each for each in page.figures if each.label == "control bytes")
    assert control.value == table.rows[2][2]
    drawn = [plot for chart in charts(page) for plot in chart.plots if "time" in plot.x.title]
    assert {re.search(r"\((\w+)\)", plot.x.title)[1] for plot in drawn if "since" not in plot.x.title} == {"s"}


def test_a_past_with_one_late_delivery_is_not_squeezed(causal):
    page = run_page(causal)
    diagram = section(page, "Causal past").blocks[0]
    past = Past(causal)
    whole = past.diagram(past.telling())
    rows = whole.table.to_pylist()
    rows.append(rows[-1] | {"seconds": 3600.0, "sent": rows[-1]["seconds"]})
    late = replace(whole, table=pa.Table.from_pylist(rows, schema=whole.table.schema))
    plot, cut = late.plot()
    dots = sorted(mark.x for mark in plot.marks if isinstance(mark, Dot))
    assert (dots[-2] - dots[0]) / (plot.x.high - plot.x.low) > 0.7
    assert "left out" in cut and any(isinstance(mark, Limit) for mark in plot.marks)
    assert not any(isinstance(mark, Limit) for mark in diagram.plots[0].marks)


def test_an_interrupted_run_is_not_green(causal, tmp_path):
    folder = shutil.copytree(causal, tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    assert run_page(folder).tone == "plain"


def test_what_an_earlier_report_left_is_removed(causal):
    (causal / "report").mkdir(exist_ok=True)
    shutil.copy(causal / "samples.parquet", causal / "report" / "witness.parquet")
    run_page(causal)
    assert not (causal / "report" / "witness.parquet").exists()


def test_a_message_can_be_chosen(causal):
    page = run_page(causal, message="3.1")
    assert section(page, "Causal past").blocks[0].title == "Message 3:1 and its causal past"
    rows = pq.read_table(causal / "report" / "space-time.parquet").to_pylist()
    assert [row["node"] for row in rows if row["role"] == "the message" and row["verb"] == "broadcast"] == ["3"]


@pytest.mark.parametrize("text", ["3.1000", "99.1"])
def test_a_message_that_does_not_exist_is_refused(causal, text):
    with pytest.raises(ConfigurationError, match=r"--message: the log has no broadcast of \d+:\d+"):
        run_page(causal, message=text)


@pytest.mark.parametrize("text", ["3", "a.1", "3.1.2", "-3.1", ""])
def test_a_message_is_named_by_two_numbers(text):
    with pytest.raises(ConfigurationError, match=r"such as 49\.1"):
        parse_message(text)


@pytest.mark.parametrize(
    "change", [{"nodes": 1}, {"workload": []}, {"log": {"events": "order"}}, {"network": {"loss": 1.0}}], ids=str
)
def test_poor_logs_have_a_page_too(tmp_path, change):
    plain = {"nodes": 3, "duration": "1s", "workload": [{"kind": "poisson", "rate": 4.0}]}
    run(make_scenario(plain | change), out=tmp_path / "run")
    page = run_page(tmp_path / "run")
    judged = change == {"log": {"events": "order"}}
    assert (
        page.tone == ("good" if judged else "plain") and "nan" not in render(page).partition("<script")[0].lower()
    )


def test_a_scenario_in_toml_makes_the_same_run(causal):
    plain = json.loads((causal / "manifest.json").read_text())["scenario"]
    shown = section(run_page(causal), "Parameters").blocks[-1].text
    assert run_id(make_scenario(tomllib.loads(shown))) == run_id(make_scenario(plain))


names = st.text("ab-. \"'é", min_size=1, max_size=4)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=8)
)
tables = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, leaves | inner | st.lists(inner, max_size=3), max_size=6),
    max_leaves=20,
)


def without_none(value):
    if isinstance(value, dict):
        return {key: without_none(each) for key, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list) else value


@given(tables)
@example({"a": "\x7f"})
def test_toml_reads_back_as_it_was_written(values):
    assert tomllib.loads(format_toml(values)) == without_none(values)


def test_commands_are_shown_as_they_can_be_typed():
    here = "/home/x/src/antecast/__main__.py"
    assert (
        command_line([here, "run", "a b.toml", "--out=x", "--force"], without_folder=True)
        == "antecast run 'a b.toml'"
    )
    assert command_line(["/bin/antecast", "sweep", "s.toml", "-o", "x"]) == "antecast sweep s.toml -o x"
    assert command_line(["/opt/pyspark/daemon.py", "run"]) is None
    assert command_line(None) is None


def test_a_folder_is_known_by_its_files(causal, tmp_path):
    assert subject_of(causal) == "run"
    for path, words in ((tmp_path, "not the folder of a run"), (tmp_path / "no", "no such folder")):
        with pytest.raises(InputError, match=words):
            subject_of(path)
    with pytest.raises(InputError, match="is a file; name its folder"):
        subject_of(causal / "manifest.json")


def test_a_witness_without_times_stands_in_order(violated):
    witness = audit(read_events(violated), clock="global").witness
    diagram = witness_diagram(witness, None)
    assert not diagram.timed and "not at their times" in diagram.words
    assert diagram.table["seconds"].to_pylist() == [float(i + 1) for i in range(len(witness.events))]


def test_what_went_wrong_without_ending_the_run_is_on_its_page(tmp_path):
    values = {
        "duration": "3s",
        "protocol": "pc-broadcast",
        "network": {
            "topology": {"kind": "ring"},
            "delay": {"kind": "uniform", "low": "1ms", "high": "500ms"},
        },
        "workload": [{"kind": "poisson", "rate": 3.0}],
    }
    result = run(make_scenario(values), out=tmp_path / "run")
    table, *texts = section(run_page(tmp_path / "run"), "Troubles").blocks
    assert ("alerts", f"{result.alerts:,}") in table.rows
    assert [each.text for each in texts] == result.troubles
    run(make_scenario(values | {"network": {"topology": {"kind": "ring"}, "fifo": True}}), out=tmp_path / "well")
    assert "Troubles" not in [each.title for each in run_page(tmp_path / "well").sections]
