"""A module that stays loaded between calls, so that what it overwrites stays in memory.

Goes in: a module and how it runs here; comes out: one of two sessions with the same
methods. What this process can run itself is loaded once, with the parameters mapped
from their file. The rest (an emulated processor; Vulkan, of which the Python runtime
reads no results back, IREE 3.13) is started anew for each call: slow, and right.

It is no part of `ingot.edges.runtime`, whose text is an input of every bake.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from ingot.edges import invoke
from ingot.edges.invoke import Module
from ingot.errors import IngotError
from ingot.values import Runner

Array: TypeAlias = Any


class Session(Protocol):
    """A module that can be called many times."""

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return a tensor of f32 that calls may overwrite."""

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        """Return the results, which may be passed to the next call as they are.

        Raises: IngotError where the call fails.
        """

    def array(self, tensor: Any) -> Array:
        """Return the numbers of a result."""


def open_session(runner: Runner, module: Module) -> Session:
    """Return a session of the module, loaded where this process can run it.

    Raises: IngotError where the module or its parameters cannot be read.
    """
    if is_native(runner):
        return Loaded(runner.device, module)
    return Restarted(runner, module)


def is_native(runner: Runner) -> bool:
    """Return whether this process can run the target's code itself."""
    return not runner.prefix and runner.device.startswith("local-")


class Loaded:
    """A module in this process."""

    def __init__(self, device: str, module: Module) -> None:
        """Read the module, map its parameters; run its initialiser."""
        from iree import runtime

        try:
            self._device = runtime.get_device(device, cache=False)
            config = runtime.Config(device=self._device)
            instance = config.vm_instance
            # Its own `mmap` opens the file for writing, which an input may refuse.
            content = module.vmfb.read_bytes()
            modules = [runtime.VmModule.copy_buffer(instance, content)]
            if module.irpa is not None:
                index = runtime.ParameterIndex()
                index.load(str(module.irpa), mmap=True)
                provider = index.create_provider(scope=module.scope)
                parameters = runtime.create_io_parameters_module(instance, provider)
                modules.insert(0, parameters)
            context = runtime.SystemContext(vm_modules=tuple(modules), config=config)
            self._module = context.modules[modules[-1].name]
        except (OSError, ValueError, RuntimeError) as error:
            raise IngotError(
                f"{module.vmfb.name}: cannot be loaded here; {first_line(error)}"
            ) from error
        self._name = module.vmfb.name

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return a tensor on the device."""
        import numpy as np
        from iree import runtime

        return runtime.asdevicearray(self._device, np.zeros(shape, np.float32))

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        """Return the results, left on the device."""
        try:
            made = self._module[function](*tensors)
        except KeyError:
            raise IngotError(
                f"@{function} of {self._name} does not run\n"
                "the module has no function of that name"
            ) from None
        except (ValueError, RuntimeError) as error:
            raise IngotError(
                f"@{function} of {self._name} does not run\n{error}"
            ) from error
        found = made if isinstance(made, tuple) else (made,)
        if len(found) != results:
            raise IngotError(
                f"@{function} of {self._name}: expected {results} results, "
                f"found {len(found)}"
            )
        return found

    def array(self, tensor: Any) -> Array:
        """Return a copy: the device's memory goes with the tensor."""
        return tensor.to_host().copy()


class Restarted:
    """A module that a new process loads at each call; tensors are NumPy arrays."""

    def __init__(self, runner: Runner, module: Module) -> None:
        """Keep what each call starts."""
        self._runner = runner
        self._module = module

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return an array."""
        import numpy as np

        return np.zeros(shape, np.float32)

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        """Return the results."""
        what = invoke.Call(function, tensors, (), results)
        return invoke.call(self._runner, self._module, what)

    def array(self, tensor: Any) -> Array:
        """Return the tensor, an array already."""
        return tensor


def first_line(error: Exception) -> str:
    """Return the line that says what happened; IREE's others are its own sources."""
    return (str(error).splitlines() or [type(error).__name__])[0]
