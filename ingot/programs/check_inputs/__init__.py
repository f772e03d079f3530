"""Record what the oracle of a model computes, as the inputs of its checks."""
