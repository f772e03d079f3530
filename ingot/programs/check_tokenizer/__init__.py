"""Compare a tokenizer with its source, within limits of time and memory."""
