"""Turn a conversation into a prompt with a bundle's chat template."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ingot.bundles.contract import CHAT_TEMPLATE
from ingot.bundles.reader import Bundle
from ingot.bundles.vocabulary import Vocabulary
from ingot.codec import to_json
from ingot.engine import process
from ingot.errors import IngotError
from ingot.runtime.chat_template import PROMPT, Message

CPU_S = 2
MEMORY_BYTES = 1 << 30

_SPEC = "spec.json"


def chat_template(bundle: Bundle) -> str | None:
    """Return the bundle's template; None if its model has none."""
    if CHAT_TEMPLATE not in bundle.contract["files"]:
        return None
    return (bundle.folder / CHAT_TEMPLATE).read_text(encoding="utf-8")


def chat_prompt(
    bundle: Bundle, vocabulary: Vocabulary, messages: Sequence[Message]
) -> str:
    """Return the prompt after which the model answers the last message.

    Raises: IngotError if the bundle has no template, or it fails; see `render`.
    """
    template = chat_template(bundle)
    if template is None:
        raise IngotError(
            f"{bundle.name}: the model has no chat template",
            "a model without one continues a text: doit generate",
        )
    return render_apart(template, messages, vocabulary.names)


def render_apart(
    template: str, messages: Sequence[Message], names: dict[str, str]
) -> str:
    """Return the prompt; a process of its own computes it, within limits.

    Raises: IngotError if the template fails, or exceeds a limit.
    """
    specification = {
        "template": template,
        "messages": [(message["role"], message["content"]) for message in messages],
        "names": names,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
    }
    with tempfile.TemporaryDirectory(prefix="ingot-chat-") as name:
        folder = Path(name)
        (folder / _SPEC).write_text(to_json(specification), encoding="utf-8")
        root = str(Path(__file__).parents[2])
        ended = process.run(
            (sys.executable, "-m", "ingot.programs.render_chat.main", _SPEC),
            folder,
            {"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if ended.exit_code == 0:
            return (folder / PROMPT).read_text(encoding="utf-8")
    if -ended.exit_code in (signal.SIGXCPU, signal.SIGKILL):
        raise IngotError(
            f"chat_template: it takes longer than {CPU_S} s",
            "see generation.chat_template of the manifest; template=none does without"
            " it",
        )
    message, _, hint = ended.output.decode(errors="replace").strip().partition("\n  ")
    raise IngotError(message, hint)
