"""Every key of a target: its form and its meaning, written once."""

from __future__ import annotations

from ingot.model.manifest_schema import CHECK_LEVELS
from ingot.model.schema_types import (
    Boolean,
    Choice,
    Key,
    Mapping,
    Number,
    Record,
    Sequence,
    Text,
)

NAME = Text("a target's name", "[a-z0-9_]+(-[a-z0-9_]+)*")
FLAG = Text("a flag such as --iree-opt-level=O2", "--[a-z0-9-]+(=.+)?")
MACHINES = ("x86_64", "aarch64")
RUNTIMES = ("iree-base-runtime", "iree-base-runtime-aarch64")

_SUMMARY = Key("summary", Text(), "what it is for, in a few words")
_TOLERANCE = Record(
    (
        Key("max_abs_error", Number(), "largest difference allowed"),
        Key("min_cosine", Number(), "smallest cosine allowed", optional=True),
        Key("reason", Text(), "why this much is right, and no more is needed"),
    )
)
_TOOLS = Key(
    "tools",
    Sequence(Text("a tool that `doit doctor` knows")),
    "what runs the code and therefore changes its results",
    optional=True,
)
_PACKAGES = Key(
    "packages", Sequence(Text()), "Debian packages that bring the tools", optional=True
)
_DEVICE = Key("device", Text(), "what --device= is given")
_RUN = Record(
    (
        _DEVICE,
        Key("env", Mapping(Text()), "environment of the program", optional=True),
        Key("emulated", Boolean(), "its times say nothing of hardware", optional=True),
        _TOOLS,
        _PACKAGES,
    )
)
_EMULATOR = Record(
    (
        _DEVICE,
        Key("argv", Sequence(Text(), min=1), "the emulator and its flags"),
        Key("runtime", Choice(RUNTIMES), "the wheel that it runs"),
        _TOOLS,
        _PACKAGES,
    )
)

TARGET = Record(
    (
        Key("target", NAME, "the target's name: this file's, without .yaml"),
        _SUMMARY,
        Key("machine", Choice(MACHINES), "the processor", optional=True),
        Key(
            "cpu_features",
            Sequence(Text()),
            "what the processor must have, as /proc/cpuinfo spells it",
            optional=True,
        ),
        Key("compile_flags", Sequence(FLAG, min=1), "flags of iree-compile"),
        Key(
            "compile_inputs",
            Sequence(Text("a path")),
            "files that the flags name, relative to the checkout",
            optional=True,
        ),
        Key("layout", NAME, "how weights are stored: targets/layouts/<name>.yaml"),
        Key("run", _RUN, "how the compiled module is run"),
        Key(
            "emulator",
            _EMULATOR,
            "how it is run where the processor is another",
            optional=True,
        ),
        Key(
            "tolerances",
            Mapping(_TOLERANCE, Text("a check level", "|".join(CHECK_LEVELS))),
            "what each level of the check may differ by",
        ),
    )
)

ALIAS = Record(
    (
        Key("target", NAME, "the target's name: this file's, without .yaml"),
        _SUMMARY,
        Key(
            "first_of",
            Sequence(NAME, min=1),
            "targets: the first that runs here without an emulator is meant",
        ),
    )
)
