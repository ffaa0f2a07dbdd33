"""Judgement of a simulated run, and what a person is shown when it fails: the story and the scenario.

The failure of `assert_conforms` says which promise was broken, tells the smallest story that shows it, and ends
with the scenario as TOML: saved to a file, it makes the same run with `antecast run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from antecast.core import MessageId, NodeId
from antecast.core.settings import plain_settings
from antecast.history.audit import audit
from antecast.history.metrics import delivery_latency
from antecast.history.oracle import judge
from antecast.history.promises import judge_promises
from antecast.history.violations import Tally
from antecast.protocols import Guarantee, Need
from antecast.sim.fault_kinds import Join, Leave, Rebirth
from antecast.sim.run import RunResult, run
from antecast.sim.scenario import Scenario
from antecast.testing.settings import messages_kept
from antecast.text.toml import format_toml

_CALM = 35 * 10**9
"""This long after the last fault a broadcast must reach everyone, whatever was lost and given up before."""


class Nonconforming(AssertionError):
    """A run broke a promise; `scenario` is the one that shows it, `toml` the same as text."""

    def __init__(self, problem: str, scenario: Scenario) -> None:
        self.problem = problem
        self.scenario = scenario
        self.toml = scenario_toml(scenario)
        super().__init__(f"{problem}\n\nThe scenario, for `antecast run`:\n\n{self.toml}\n")


def assert_conforms(scenario: Scenario, *, besides: Collection[NodeId] = ()) -> RunResult:
    """Run a scenario and check every promise of its protocol; returns the run, for further questions.

    `besides` are nodes that break what the protocol needs, such as clocks that are far off. They may suffer; among
    the others every promise must hold, and what they broadcast in the end must arrive.
    """
    result = run(scenario)
    events = result.events
    as_run = scenario
    if besides:
        scenario, events = _without(scenario, events, besides)
    oracle = judge(events, clock="global")
    tally = Tally(
        early=len(oracle.early),
        late=len(oracle.late),
        duplicates=len(oracle.duplicates),
        unknown=len(oracle.unknown),
        before_broadcast=len(oracle.before_broadcast),
    )
    promised = scenario.specification.guarantees
    promises = judge_promises(
        promised - {Guarantee.AGREEMENT},
        tally,
        lambda: events,
        elsewhere=len(delivery_latency(events)),
        latest=scenario.latest_delivery(),
    )
    if promises.broken:
        witness = audit(events, clock="global").witness
        story = promises.example if witness is None else str(witness)
        raise Nonconforming(f"{scenario.specification.name}: {promises}\n\n{story}", as_run)
    if (Guarantee.AGREEMENT in promised or besides) and not scenario.unmet_needs():
        missing = _missing(scenario, events, besides)
        if missing:
            raise Nonconforming(f"{scenario.specification.name}: broken: agreement\n\n{missing}", as_run)
    return result


def _without(scenario: Scenario, events: pa.Table, besides: Collection[NodeId]) -> tuple[Scenario, pa.Table]:
    """The same run as far as the other nodes and their messages are concerned."""
    fixed = {node: at for node, at in scenario.clocks.fixed.items() if int(node) not in besides}
    others = msgspec.structs.replace(scenario, clocks=msgspec.structs.replace(scenario.clocks, fixed=fixed))
    apart = pa.array(sorted(besides), events["node"].type)
    theirs = pc.or_(pc.is_in(events["node"], apart), pc.is_in(events["origin"], apart.cast(events["origin"].type)))
    return others, events.filter(pc.invert(theirs))


def members(scenario: Scenario) -> tuple[set[NodeId], set[NodeId]]:
    """The nodes that are there at the end, and those among them that came during the run."""
    joined = {fault.node for fault in scenario.faults if isinstance(fault, Join)}
    reborn = {fault.node: fault.number for fault in scenario.faults if isinstance(fault, Rebirth)}
    gone = {fault.node for fault in scenario.faults if isinstance(fault, Leave)} | reborn.keys()
    newcomers = joined | set(reborn.values())
    return (set(range(scenario.nodes)) | newcomers) - gone, newcomers - gone


def _missing(scenario: Scenario, events: pa.Table, besides: Collection[NodeId]) -> str | None:
    """Who lacks what it should have, in words.

    Everyone must have what was broadcast after a long calm, and what is still kept by all who have delivered it:
    any other message may rightly have been given up.
    """
    here, newcomers = members(scenario)
    here = here - set(besides)
    delivered: dict[NodeId, list[MessageId]] = defaultdict(list)
    when: dict[MessageId, int] = {}
    columns = ["node", "pos", "kind", "origin", "seq", "t"]
    for row in sorted(events.select(columns).to_pylist(), key=lambda row: (row["node"], row["pos"])):
        name = MessageId(row["origin"], row["seq"]) if row["origin"] is not None else None
        if name is not None and row["kind"] == "deliver":
            delivered[row["node"]].append(name)
        elif name is not None and row["kind"] == "broadcast":
            when[name] = row["t"]
    had = set().union(*(delivered[node] for node in here)) if here else set()
    calm = max((fault.at for fault in scenario.faults if hasattr(fault, "at")), default=0) + _CALM
    fresh = {name for name in had if when.get(name, 0) >= calm}
    kept = had - _given_up(scenario.protocol_settings, delivered)
    if getattr(scenario.protocol_settings, "newcomers", "kept") == "now":
        kept = set()  # a node without a past begins with what is to come
    fresh &= kept  # a run ends at a fixed time: `assert_contract` waits until what nobody keeps is given up
    for node in sorted(here):
        got = set(delivered[node])
        history = kept if _gets_history(scenario) or node not in newcomers else set()
        for name in sorted((fresh | history) - got, key=lambda name: when.get(name, 0)):
            others = ", ".join(str(each) for each in sorted(here) if name in delivered[each])
            return (
                f"node {node} never delivered {name}, which node {name.origin} broadcast"
                f" at {when.get(name, 0) / 1e9:g} s; delivered by node {others}"
            )
    return None


def _given_up(settings: Any, delivered: dict[NodeId, list[MessageId]]) -> set[MessageId]:
    """Messages that somebody who delivered them need not keep any more, by `retain` or `capacity`."""
    everything = set().union(*delivered.values())
    capacity, retain = getattr(settings, "capacity", None), messages_kept(settings, delivered)
    if capacity is not None and len(everything) > capacity:
        return everything
    if retain is None:
        return set()
    return {name for names in delivered.values() for name in names[: max(0, len(names) - retain)]}


def _gets_history(scenario: Scenario) -> bool:
    """Whether newcomers get what was broadcast before they came."""
    return Need.CELLS not in scenario.specification.needs(scenario.protocol_settings)


def scenario_toml(scenario: Scenario) -> str:
    """A scenario as TOML, without fields that have their default."""
    values: dict[str, Any] = plain_settings(_Brief(_brief(scenario)))["values"]
    return format_toml(values)


class _Brief(msgspec.Struct):
    values: Any


def _brief(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_brief(each) for each in value]
    if not isinstance(value, msgspec.Struct):
        return value
    config = value.__struct_config__
    brief = {config.tag_field: config.tag} if config.tag_field else {}
    for each in msgspec.structs.fields(value):
        own = getattr(value, each.name)
        default = each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
        if own != default or each.required or each.name == "protocol":
            brief[each.encode_name] = _brief(own)
    return brief
