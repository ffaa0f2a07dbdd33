"""What a protocol promised is judged in one place: promise by promise, and alike by every command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from antecast.core.guarantees import Guarantee
from antecast.history import checks
from antecast.history.audit import audit
from antecast.history.log import iter_events
from antecast.history.measure import measure
from antecast.history.metrics import delivery_latency, delivery_ratio, overhead, summarise
from antecast.history.promises import Promises, State, judge_promises, tell
from antecast.history.schema import EVENTS, KINDS
from antecast.protocols import registry, specification
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario
from antecast.testing import assert_conforms

ALL = frozenset(Guarantee)


def log(text: str, t: int = 1) -> pa.Table:
    """`0 broadcast 0:1` and so on, a line an event, each `t` nanoseconds after the one before."""
    rows, pos = [], {}
    for number, line in enumerate(filter(None, text.splitlines())):
        node, kind, name = line.split()
        origin, seq = map(int, name.split(":"))
        pos[node] = pos.get(node, -1) + 1
        assert kind in KINDS
        rows.append(("run", int(node), pos[node], number * t, kind, origin, seq, None, 0))
    columns = zip(*rows, strict=True) if rows else [[] for _ in EVENTS]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, EVENTS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=EVENTS)


def judged(events: pa.Table, promised=ALL, **more: object) -> Promises:
    tally, elsewhere = audit(events, clock="global").tally, len(delivery_latency(events))
    return judge_promises(promised, tally, lambda: events, elsewhere=elsewhere, **more)


GOOD = """
0 broadcast 0:1
0 deliver 0:1
1 deliver 0:1
0 broadcast 0:2
0 deliver 0:2
1 deliver 0:2
"""
SWAPPED = """
0 broadcast 0:1
0 deliver 0:1
0 broadcast 0:2
0 deliver 0:2
1 deliver 0:2
1 deliver 0:1
"""
ANSWER_FIRST = """
0 broadcast 0:1
0 deliver 0:1
1 deliver 0:1
1 broadcast 1:1
1 deliver 1:1
2 deliver 1:1
2 deliver 0:1
0 deliver 1:1
"""


@pytest.mark.parametrize(
    "text, broken",
    [
        (GOOD, []),
        (SWAPPED, ["causal", "fifo"]),
        (ANSWER_FIRST, ["causal"]),
        (GOOD + "1 deliver 0:1", ["integrity"]),
        (GOOD + "1 deliver 0:7", ["integrity"]),
        ("1 deliver 0:1" + GOOD.replace("1 deliver 0:1", "", 1), ["integrity"]),
    ],
)
def test_each_promise_is_judged_by_itself(text, broken):
    assert judged(log(text)).broken == broken
    assert judged(log(text), frozenset()).broken == []
    for promise in broken:
        assert judged(log(text), {Guarantee(promise)}).broken == [promise]


def test_a_promise_is_not_kept_where_nothing_was_delivered_to_others():
    for text in ("", "0 broadcast 0:1", "0 broadcast 0:1\n0 deliver 0:1"):
        events = log(text)
        verdict, promises = audit(events, clock="global"), judged(events)
        assert State.KEPT not in promises.states.values()
        assert (promises.broken, promises.untried, promises.outcome(verdict)) == ([], True, "inconclusive")
        assert tell("vector", promises, verdict).headline == "nothing to judge"
    promises = judged(log(GOOD), latest=10)
    assert promises.states[Guarantee.CAUSAL] is promises.states[Guarantee.DEADLINE] is State.KEPT


def test_agreement_is_judged_among_the_nodes_that_are_named_and_nowhere_else():
    missing = GOOD + "2 deliver 0:2"
    assert judged(log(missing)).states[Guarantee.AGREEMENT] is State.UNJUDGED
    assert judged(log(missing), agreeing=[0, 1]).states[Guarantee.AGREEMENT] is State.KEPT
    promises = judged(log(missing), agreeing=[0, 1, 2])
    assert (promises.broken, promises.example) == (["agreement"], "node 2 never delivered 0:1")


def test_a_deadline_is_broken_by_a_late_delivery_and_by_one_after_expiry():
    events = log(GOOD, t=10)  # deliveries come 20 ns after their broadcast
    assert judged(events).states[Guarantee.DEADLINE] is State.UNJUDGED
    assert judged(events, latest=20).states[Guarantee.DEADLINE] is State.KEPT
    late = judged(events, latest=10)
    assert late.broken == ["deadline"] and "node 1 delivered 0:1" in late.example
    again = judged(log(GOOD.replace("1 deliver 0:1", "1 expire 0:1\n1 deliver 0:1")), latest=100)
    assert (again.broken, again.example) == (["deadline"], "node 1 delivered 0:1 after it had expired there")


@pytest.mark.parametrize("rule", ["safe", "paper"])
def test_delta_delivers_nothing_after_its_deadline_whatever_clocks_and_lifetimes(rule):
    for seed in range(5):
        values = {
            "seed": seed,
            "nodes": 6,
            "duration": "20s",
            "protocol": {"name": "delta", "lifetime": "400ms", "max_lifetime": "700ms", "rule": rule},
            "network": {"topology": {"kind": "ring"}, "delay": {"kind": "exponential", "mean": "150ms"}},
            "clocks": {"offset": "50ms", "drift": 500},
            "workload": [{"kind": "poisson", "rate": 2.0}],
        }
        scenario = make_scenario(values)
        events = run(scenario).events
        assert checks.deadlines(events, scenario.latest_delivery()).ok
        assert not checks.deadlines(events, 10**8).ok  # many take longer than a fraction of it


# One judgement, four ways to ask for it.

LIAR = (
    "from dataclasses import replace; from antecast.protocols import *; "
    "from antecast.protocols.registry import Guarantee; "
    "register(replace(specification('r-broadcast'), name='liar',"
    " guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.FIFO}))); "
    "from antecast.cli import main; main()"
)
"""A protocol that claims the order of each source and has none."""

SCENARIO = """
nodes = 5
duration = "3s"
protocol = "liar"
[network]
delay = { kind = "exponential", mean = "200ms" }
[[workload]]
kind = "poisson"
rate = 5.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    return tmp_path


def liar(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIAR, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_a_broken_fifo_fails_a_run(folder):
    done = liar(folder, "run", "scenario.toml", "--json")
    assert (done.returncode, json.loads(done.stdout)["broken_promises"]) == (1, ["fifo"]), done.stderr


def test_a_broken_fifo_fails_a_comparison(folder):
    done = liar(folder, "compare", "scenario.toml", "--no-spark", "--seeds", "1", "--protocol", "liar", "--json")
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)["protocols"]
    assert (row["broken"], row["order"]) == (["fifo"], "promise broken")
    shown = liar(folder, "compare", "scenario.toml", "--no-spark", "--seeds", "1", "--protocol", "liar")
    assert shown.returncode == 1 and "liar broke what it promises: fifo" in shown.stderr


@pytest.fixture
def registered(monkeypatch):
    spec = replace(
        specification("r-broadcast"), name="liar", guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.FIFO})
    )
    monkeypatch.setitem(registry._registry, "liar", spec)


def test_a_broken_fifo_fails_a_sweep(registered, tmp_path):
    from antecast.reporting.sweep import sweep_page
    from antecast.sim.study import make_study, plan
    from antecast.spark.folder import Batch, SweepFolder
    from antecast.spark.sweep import SweepResult
    from antecast.spark.task import Limits, make_batch

    values = {"name": "lies", "scenario": make_scenario(_VALUES).plain(), "grid": {"nodes": [5, 6]}, "seeds": 1}
    study = make_study(values)
    planned, place = plan(study), SweepFolder(tmp_path / "sweep")
    with place.claimed(study):
        batch = Batch(tuple((each.index, each.run) for each in planned))
        assert make_batch(study, batch, place, Limits()) == ["finished"] * 2
        runs = place.assemble(study, planned)
    result = SweepResult(folder=place.path, runs=runs, total=2, resumed=0, failed=0)
    assert result.runs["broken"].to_pylist() == ["fifo", "fifo"] and result.violated == 2
    assert sweep_page(place.path).tone == "bad"


def test_a_broken_fifo_fails_conformance(registered):
    with pytest.raises(AssertionError, match="broken: fifo"):
        assert_conforms(make_scenario(_VALUES))


_VALUES = {
    "nodes": 5,
    "duration": "3s",
    "protocol": {"name": "liar"},
    "network": {"delay": {"kind": "exponential", "mean": "200ms"}},
    "workload": [{"kind": "poisson", "rate": 5.0}],
}


def test_the_measure_of_a_run_is_what_the_plain_metrics_say(tmp_path):
    values = _VALUES | {"protocol": {"name": "vector", "repair": "100ms"}, "network": {"loss": 0.2}}
    result = run(make_scenario(values), out=tmp_path / "run")
    events = result.events
    for found in (measure(events), measure(lambda: iter_events(tmp_path / "run"), received=False)):
        assert found.cost == overhead(events)
        assert found.delivery == summarise(delivery_latency(events)["latency"])
        assert found.ratio == delivery_ratio(events)
        assert found.events == len(events) and found.elsewhere == len(delivery_latency(events))
        assert audit(found.order, clock="global").tally == audit(events, clock="global").tally
