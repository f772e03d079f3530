"""Describe how a target's compiled module runs on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runner:
    """How a target's vmfb is run here."""

    device: str  # "local-task", "local-sync", "vulkan"
    prefix: tuple[str, ...] = ()  # the emulator: ("qemu-aarch64", "-L", "/usr/...")
    runtime: str = "iree-base-runtime"  # the wheel that has the programs
    env: tuple[tuple[str, str], ...] = ()
    emulated: bool = False

    @property
    def is_slow(self) -> bool:
        """Return whether each call starts an emulator."""
        return bool(self.prefix)

    @property
    def compiles_at_load(self) -> bool:
        """Return whether a driver compiles a module each time a process loads it."""
        return self.device == "vulkan"
