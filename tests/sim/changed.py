"""A scenario with some of its fields changed."""

import msgspec

from antecast.core import ConfigurationError
from antecast.sim.scenario import make_scenario


def changed(base, changes):
    """The values of a scenario with fields set by their paths, such as `network.loss`; None takes one out."""
    values = msgspec.convert(msgspec.to_builtins(base), dict)
    for path, value in sorted(changes.items()):
        *parents, last = path.split(".")
        table = values
        for each in parents:
            table = table.setdefault(each, {})
        if value is None:
            table.pop(last, None)
        else:
            table[last] = value
    return values


def scenario_or_none(values):
    """The scenario, or None where these values make none."""
    try:
        return make_scenario(values)
    except ConfigurationError:
        return None
