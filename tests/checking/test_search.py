"""The search sees every world of a small scope, once."""

import pytest
from small import SPEC, Direct, Idles, Raises, Repeats, Stray, spec_of

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.machine import Machine
from antecast.checking.scope import Scope
from antecast.checking.search import explore
from antecast.checking.walks import walk
from antecast.checking.world import Worlds
from antecast.core import ConfigurationError
from antecast.protocols import Guarantee, specification, specifications

CAUSAL = frozenset({Guarantee.CAUSAL})


def test_the_states_of_two_nodes_and_one_broadcast():
    """The beginning; then for each of two sources: the message is under way, or has arrived."""
    found = check(SPEC, Scope(nodes=2, broadcasts=1), reduce=False, exact=True).found
    assert (found.verdict, found.states) == ("exhausted", 1 + 2 * 2)


def test_the_states_of_two_nodes_and_two_broadcasts():
    """Worked out by hand. A node is what it has had, in its order: x and y are messages of nodes 0 and 1.

    - nobody has broadcast: 1
    - one has: the other has it or not, 2; for either source, 4
    - one has broadcast twice: the other has had nothing, either, or both in either order, 5; for either source, 10
    - both have: node 0 is x, xy or yx; node 1 is y, yx or xy. Not both can have had the other's message before
      their own, so 9 - 1 = 8
    """
    found = check(SPEC, Scope(nodes=2, broadcasts=2), reduce=False, exact=True).found
    assert found.states == 1 + 4 + 10 + 8
    in_order = check(SPEC, Scope(nodes=2, broadcasts=2, fifo=True), reduce=False, exact=True).found
    assert in_order.states == 1 + 4 + 2 * 3 + 8


def test_a_link_that_breaks_is_noticed_by_each_end_alone():
    """Worked out by hand, without a broadcast before the break or after it.

    Each end of the broken life is up or down: 4. The next life may begin at any time: then each end is still up in
    the old life, down, or up in the new: 9.
    """
    scope = Scope(nodes=2, broadcasts=1, breaks=1, bound=1)
    worlds = Worlds(SPEC, SPEC.configure({}), scope)
    world = worlds.beginning()
    broken, _ = worlds.perform(world, ("break", 0, 1))
    seen, queue = {broken}, [broken]
    for each in queue:
        for action in worlds.actions(each):
            after, problem = worlds.perform(each, action)
            assert problem is None
            if after not in seen:
                seen.add(after)
                queue.append(after)
    assert len(seen) == 4 + 9


@pytest.mark.parametrize(
    ("make", "broken", "scope"),
    [
        (Repeats, "integrity", Scope(nodes=2, broadcasts=1)),
        (Raises, "exception", Scope(nodes=2, broadcasts=2)),
        (Stray, "contract", Scope(nodes=2, broadcasts=1, breaks=1)),
        (Idles, "termination", Scope(nodes=2, broadcasts=1)),
        (Direct, "termination", Scope(nodes=2, broadcasts=1, breaks=1)),
    ],
)
def test_what_is_wrong_is_found_and_can_be_played_again(make, broken, scope):
    done = check(spec_of(make), scope)
    assert done.found.problem.property == broken
    played = replay(done.counterexample, spec_of(make))
    assert played.problem.property == broken
    assert len(played.steps) == len(done.found.actions)


def test_a_timer_that_is_set_again_for_ever_is_a_lasso():
    assert (
        "from here on everything repeats"
        in check(spec_of(Idles), Scope(nodes=2, broadcasts=1)).found.problem.words
    )


def test_an_answer_that_overtakes_its_question_takes_four_steps():
    done = check(specification("r-broadcast"), Scope(broadcasts=1, answers=1), promises=CAUSAL)
    assert len(done.found.actions) == 4
    diagram = replay(done.counterexample).witness.diagram
    assert "broadcast 1:1" in diagram


@pytest.mark.parametrize("strategy", ["breadth", "depth", "growing", "walk", "overtaking"])
def test_every_strategy_finds_it(strategy):
    done = check(specification("fifo"), Scope(broadcasts=1, answers=1), promises=CAUSAL, strategy=strategy)
    assert done.found.problem.property == "causal"
    assert len(done.found.actions) == 4 or (strategy == "depth" and len(done.found.actions) == 5)
    assert replay(done.counterexample).problem.property == "causal"


def test_a_walk_is_the_same_for_the_same_seed():
    scope = Scope(broadcasts=2, answers=1, breaks=1)
    walks = [check(SPEC, scope, strategy="walk", seed=seed).counterexample.actions for seed in (1, 1)]
    assert walks[0] == walks[1]


def test_walks_that_forget_what_they_know_are_the_same_walks():
    spec, scope = specification("barrier"), Scope(broadcasts=2, answers=1, breaks=1, crashes=1)
    made: list[Worlds] = []

    def worlds():
        made.append(Worlds(spec, spec.fit(spec.configure({}), 3), scope))
        return made[-1]

    for patient in (False, True):
        kept = walk(worlds(), seed=3, walks=12, patient=patient)
        made.clear()
        forgetful = walk(worlds(), seed=3, walks=12, patient=patient, anew=worlds)
        assert len(made) == 13
        assert max(len(each.machine.states) for each in made) > 10
        if not patient:  # those start from what they have seen
            assert (kept.transitions, kept.depth) == (forgetful.transitions, forgetful.depth)


def test_a_property_of_one_s_own_is_one_function():
    def nobody_has_two(view):
        return next((f"node {n} has two" for n in view.nodes if len(view.delivered(n)) == 2), None)

    done = check(SPEC, Scope(nodes=2, broadcasts=2), properties=(nobody_has_two,))
    assert (done.found.problem.property, done.found.problem.words) == ("nobody_has_two", "node 0 has two")


def nobody_has_both(view):
    return next((f"node {n} has two" for n in view.nodes if len(view.delivered(n)) == 2), None)


@pytest.mark.parametrize("strategy", ["breadth", "walk"])
def test_a_property_of_one_s_own_is_judged_again_when_it_is_replayed(strategy):
    done = check(SPEC, Scope(nodes=2, broadcasts=2), properties=(nobody_has_both,), strategy=strategy)
    assert done.counterexample.properties == [f"{__name__}:nobody_has_both"]
    assert len(done.counterexample.actions) == 2 + (strategy == "walk")
    played = replay(done.counterexample, SPEC)
    assert (played.problem.property, played.problem.words) == ("nobody_has_both", done.found.problem.words)


def test_a_property_that_looks_at_numbers_and_at_who_is_down_sees_every_world():
    """Under reduction by symmetry only one of two nodes would broadcast first, and no node would stay down."""

    def node_1_is_first(view):
        return "it is" if view.delivered(1) and not view.delivered(0) else None

    def only_node_0_is_up(view):
        return "it is" if set(view.nodes) == {0} else None

    for each in (node_1_is_first, only_node_0_is_up):
        found = check(
            SPEC, Scope(nodes=2, broadcasts=1, crashes=1), promises=frozenset(), properties=(each,)
        ).found
        assert found.problem.words == "it is"


def test_a_property_may_be_broken_before_anything_has_happened():
    def somebody_is_up(view):
        return "somebody is" if view.nodes else None

    done = check(SPEC, Scope(nodes=2, broadcasts=1), properties=(somebody_is_up,))
    assert (done.found.verdict, done.counterexample.actions) == ("violated", [])
    limited = check(specification("pc-broadcast"), Scope(nodes=2, broadcasts=1), bounds={"links": 0})
    assert limited.found.problem.words.endswith("keeps 1 (links); the limit is 0")
    assert replay(limited.counterexample).problem == limited.found.problem


def raises(view):
    return view.nodes["none"]


def gives_a_number(view):
    return len(view.nodes)


def writes(view):
    for node in view.nodes.values():
        node.seq = 7


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (raises, r"property: raises \(test_search.py, line \d+\) raised KeyError: 'none'"),
        (gives_a_number, "property: gives_a_number gave 3; a property says in words what is wrong, or gives None"),
        (writes, "what only looks at a node, such as a property, changed its state"),
    ],
)
def test_a_property_that_is_wrong_itself_is_named(wrong, words, jobs):
    with pytest.raises(ConfigurationError, match=words):
        check(SPEC, Scope(nodes=3, broadcasts=2, breaks=1), properties=(wrong,), jobs=jobs, share_from=5)


def later(view):
    return view.nodes["none"] if any(len(view.delivered(node)) == 2 for node in view.nodes) else None


def test_a_property_that_raises_in_a_shared_search_is_named():
    with pytest.raises(ConfigurationError, match=r"later .* raised KeyError: 'none'"):
        check(SPEC, Scope(nodes=3, broadcasts=2), properties=(later,), jobs=2, share_from=2)


@pytest.mark.parametrize(("limit", "broken"), [(1, True), (2, False)])
def test_no_node_holds_more_back_than_a_limit_allows(limit, broken):
    """Three messages of one chain: whoever gets the last one first holds two back, and never more."""
    done = check(specification("vector"), Scope(nodes=2, broadcasts=3, fifo=False), bounds={"pending": limit})
    assert (done.found.verdict == "violated") == broken
    if broken:
        assert done.found.problem.property == "bounded buffers"
        assert done.found.problem.words.endswith("keeps 2 (pending); the limit is 1")
        assert replay(done.counterexample).problem == done.found.problem


def test_a_limit_of_what_a_protocol_has_no_gauge_for_is_refused():
    with pytest.raises(ConfigurationError, match=r"^limits: vector has no gauge 'postbox'; it has .*pending"):
        check(specification("vector"), Scope(), bounds={"postbox": 1})


def test_a_search_that_may_not_see_everything_says_so():
    def stop(states, *_):
        return "enough"

    worlds = Worlds(SPEC, SPEC.configure({}), Scope(nodes=4, broadcasts=3))
    found = explore(worlds, reduce=False, progress=stop)
    assert (found.verdict, found.why) == ("not exhausted", "enough")
    assert found.frontier > 0


def test_when_memory_is_used_up_it_goes_on_as_a_random_walk():
    limits = Limits(memory=1, seconds=0.2)
    found = check(specification("vector"), Scope(broadcasts=3), limits=limits).found
    assert found.verdict == "not exhausted"
    assert found.why.startswith("memory is used up; then")
    assert "random walks" in found.why


@pytest.mark.parametrize(
    ("name", "scope", "field"),
    [
        ("vector", Scope(nodes=1), "nodes"),
        ("vector", Scope(broadcasts=0), "broadcasts"),
        ("vector", Scope(losses=1), "losses"),
        ("vector", Scope(nodes=2, leaves=1), "leaves"),
        ("vector", Scope(stations=1), "stations"),
        ("cellular", Scope(), "stations"),
        ("tcp-flooding", Scope(stations=2, crashes=1), "crashes"),
        ("pc-broadcast", Scope(fifo=False), "fifo"),
        ("vcube", Scope(topology="line"), "topology"),
        ("vector", Scope(appears=1), "appears"),
        ("vector", Scope(lifetimes=[1]), "lifetimes"),
    ],
)
def test_a_scope_that_means_nothing_is_refused(name, scope, field):
    with pytest.raises(ConfigurationError, match=f"^{field}: "):
        check(specification(name), scope)


class Careful(Machine):
    """Makes each call on two objects that came to the same state in different ways, where there are two."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.others = {}
        self.compared = 0

    def _intern(self, node, state):
        before = len(self.states)
        number = super()._intern(node, state)
        if number < before and isinstance(state, type(self.states[number])) and hasattr(state, "clone"):
            self.others.setdefault(number, state)
        return number

    def _call(self, state, node, now, method, arguments):
        step = super()._call(state, node, now, method, arguments)
        if state in self.others:
            original, self.states[state] = self.states[state], self.others[state]
            again = super()._call(state, node, now, method, arguments)
            self.states[state] = original
            self.compared += 1
            assert (again.state, again.effects, again.problem) == (step.state, step.effects, step.problem)
        return step


@pytest.mark.parametrize("name", [each.name for each in specifications()])
def test_states_that_are_equal_behave_equally(name):
    spec = specification(name)
    scope = Scope(nodes=2, broadcasts=1, answers=1, crashes=1)
    settings = spec.fit(spec.configure({}), 2)
    if spec.make_station is not None:
        unrest = {"timeouts": 2} if name == "tcp-flooding" else {"moves": 1}
        scope = Scope(nodes=2, stations=2, broadcasts=1, losses=1, **unrest)
    worlds = Worlds(spec, settings, scope, machine=Careful)
    found = explore(worlds, progress=lambda states, *_: "enough" if states > 250 else None)
    assert found.problem is None
    assert worlds.machine.compared > 0
