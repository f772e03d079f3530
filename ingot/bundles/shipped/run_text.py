"""Turn a text into token ids and back, for run.py of this bundle.

It needs tokenizers, and jinja2 if the model has a chat template: bundle.json's `text`
names them.
"""

import json
import sys
from typing import Any

from run import CONTRACT, GENERATION, HERE, Model, embed, generate
from tokenizers import Tokenizer


def answer(model: Model, text: str, count: int, plain: bool) -> None:
    """Print the text that follows, or the vector of the text."""
    tokenizer = Tokenizer.from_file(str(HERE / CONTRACT["text"]["tokenizer"]))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if not GENERATION:
        print(json.dumps(embed(model, tokenizer.encode(text).ids)))
        return
    made: list[int] = []
    written = ""
    for token in generate(model, prompt_ids(tokenizer, text, plain), count):
        made.append(token)
        written = tokenizer.decode(made)
        places = [written.find(x) for x in GENERATION["stop"] if x in written]
        if places:
            written = written[: min(places)]
            break
    print(written)


def prompt_ids(tokenizer: Any, text: str, plain: bool) -> list[int]:
    """Return the ids of a text, or of the user's turn that it is to a chat model."""
    if GENERATION["chat_template"] and not plain:
        words = chat(tokenizer, text)
        return list(tokenizer.encode(words, add_special_tokens=False).ids)
    ids, bos = list(tokenizer.encode(text).ids), GENERATION["bos"]
    return [bos, *ids] if GENERATION["add_bos"] and ids[:1] != [bos] else ids


def chat(tokenizer: Any, text: str) -> str:
    """Return the text in the model's chat template, run in Jinja's sandbox."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Ignore the marks around what an assistant says, which training needs."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            """Return the content of the block."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    sandbox.globals["raise_exception"] = sys.exit
    path = HERE / GENERATION["chat_template"]
    ends = GENERATION["end_tokens"]
    special = {"bos_token": GENERATION["bos"], "eos_token": ends[0] if ends else None}
    names = {
        name: tokenizer.id_to_token(token)
        for name, token in special.items()
        if token is not None
    }
    turn = {"role": "user", "content": text}
    template = sandbox.from_string(path.read_text(encoding="utf-8"))
    return template.render(messages=[turn], add_generation_prompt=True, **names)
