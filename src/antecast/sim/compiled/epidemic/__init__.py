"""Epidemic exchange, compiled. `arrays` names the state, `kernel` has the loop over events, the exchange and
contacts that come and go; `engine` makes a run of it."""
