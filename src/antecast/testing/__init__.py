"""For testing protocols, yours or ours (`docs/testing.md`).

- `assert_conforms` runs a random scenario of `scenarios(specification)` in the simulator and judges every promise;
- `assert_contract` plays a random plan of `plans(specification)` on a bench that keeps the contract of
  `antecast.core.protocol` and no more: ends of links that change alone, crashes inside a call, tiny retention;
- `Bench` is that bench, for tests of your own;
- `python -m antecast.testing.fuzz` sends hostile frames.

    from hypothesis import given
    from antecast.protocols import specification
    from antecast.testing import assert_conforms, scenarios

    @given(scenarios(specification("my-protocol")))
    def test_my_protocol(scenario):
        assert_conforms(scenario)

This package needs Hypothesis.
"""

from antecast.testing.conformance import assert_contract
from antecast.testing.counterexample import Nonconforming, assert_conforms
from antecast.testing.driver import Bench
from antecast.testing.encounters import encounters, odd_clocks
from antecast.testing.networks import scenarios
from antecast.testing.plans import Move, Plan, plans
from antecast.testing.timing import ContractBroken
from antecast.testing.unharmed import assert_unharmed

__all__ = [
    "Bench",
    "ContractBroken",
    "Move",
    "Nonconforming",
    "Plan",
    "assert_conforms",
    "assert_contract",
    "assert_unharmed",
    "encounters",
    "odd_clocks",
    "plans",
    "scenarios",
]
