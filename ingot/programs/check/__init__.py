"""Compare a target's modules with the oracles and the golden outputs."""
