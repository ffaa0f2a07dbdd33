"""VCube without diagnosis, compiled. `arrays` names the state, `kernel` has the loop over events and the trees,
`holding` what is held back from children, `delivering` causal order; `engine` makes a run of it."""
