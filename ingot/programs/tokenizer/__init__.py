"""Write the vocabulary of a GGUF file as a tokenizer.json."""
