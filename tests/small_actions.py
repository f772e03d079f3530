"""Provide two actions, one of which needs the other, for tests of executors."""

from __future__ import annotations

import hashlib

from ingot.engine.actions import Action, InlineText, Output

UPPER = Action(
    task="upper:x",
    argv=("sh", "-c", "tr a-z A-Z < in.txt > out.txt; echo done"),
    inputs=(("in.txt", InlineText("abc")),),
    outputs=("out.txt",),
    exported_to=("build/out.txt",),
)
COUNT = Action(
    task="count:x",
    argv=("sh", "-c", "wc -c < upper.txt > count.txt"),
    inputs=(("upper.txt", Output("upper:x", "out.txt")),),
    outputs=("count.txt",),
    exported_to=("build/count.txt",),
)
OUT = hashlib.sha256(b"ABC").hexdigest()
