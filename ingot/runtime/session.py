"""Keep a module loaded between calls, so that what it overwrites stays in memory.

There are two kinds of session with the same methods. If this process can run the target
itself (Vulkan included), the module is loaded once, with the parameters mapped from
their file. For an emulated processor, each call starts a new process, which is slow but
gives the same result.

This is not part of `ingot.weights.irpa`, whose source is an input of every bake.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

from ingot.errors import IngotError, counted
from ingot.model.runner import Runner
from ingot.runtime import invoke
from ingot.runtime.invoke import Module

Array: TypeAlias = Any

# A driver reads the environment, which all threads share, when it is opened.
_opening = Lock()


class Session(Protocol):
    """A module that can be called many times."""

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return a tensor of f32 that calls may overwrite."""

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        """Return the results, which may be passed to the next call as they are.

        Raises: IngotError if the call fails.
        """

    def array(self, tensor: Any) -> Array:
        """Return the numbers of a result."""


def open_session(runner: Runner, module: Module) -> Session:
    """Return a session of the module, loaded if this process can run it.

    Raises: IngotError if the module or its parameters cannot be read.
    """
    if is_native(runner):
        return Loaded(runner, module)
    return Restarted(runner, module)


def is_native(runner: Runner) -> bool:
    """Return whether this process can run the target's code itself."""
    return not runner.prefix and runner.device.startswith(("local-", "vulkan"))


class Loaded:
    """A module that is loaded into this process."""

    def __init__(self, runner: Runner, module: Module) -> None:
        """Read the module, map its parameters, and run its initialiser."""
        from iree import runtime

        try:
            self._opened = _open_device(runner)
            self._device = self._opened.handle
            config = runtime.Config(device=self._device)
            instance = config.vm_instance
            # IREE's own `mmap` opens the file for writing, which may fail for an input.
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
        self._staged = runner.device.startswith("vulkan")

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return a tensor on the device."""
        import numpy as np
        from iree import runtime

        return runtime.asdevicearray(self._device, np.zeros(shape, np.float32))

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        """Return the results, which stay on the device."""
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
            expected = counted(results, "result")
            raise IngotError(
                f"@{function} of {self._name}: expected {expected}, found {len(found)}"
            )
        return found

    def array(self, tensor: Any) -> Array:
        """Return a copy, because the device's memory is freed with the tensor."""
        if self._staged:
            return _staged(self._device, tensor)
        return tensor.to_host().copy()


class _Device:
    """A device, which is open as long as a session has it."""

    def __init__(self, handle: Any) -> None:
        """Keep the runtime's own object."""
        self.handle = handle


# By runner and process: a forked process has none of a device's threads.
_devices: WeakValueDictionary[tuple[Runner, int], _Device] = WeakValueDictionary()


def _open_device(runner: Runner) -> _Device:
    """Return this process's device for a runner, whose environment the driver reads.

    All modules share it, and it is closed with the last of them: the threads of a
    software driver keep a processor busy as long as their device is open.
    """
    # The public `get_device` keeps the first driver of a name for the whole process.
    from iree.runtime._binding import create_hal_driver

    given = invoke.variables(runner)
    with _opening:
        if (found := _devices.get((runner, os.getpid()))) is not None:
            return found
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            driver = create_hal_driver(runner.device.partition(":")[0])
            made = _Device(driver.create_device_by_uri(runner.device))
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        _devices[runner, os.getpid()] = made
        return made


def _staged(device: Any, tensor: Any) -> Array:
    """Return a copy of a tensor in a device's memory.

    IREE 3.13's own `to_host` gives Vulkan memory without the alignment that it needs.
    """
    from iree.runtime import BufferUsage, HalFence, MemoryType

    source = tensor._buffer_view.get_buffer()
    target = device.allocator.allocate_buffer(
        memory_type=MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE,
        allowed_usage=BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED,
        allocation_size=source.byte_length(),
    )
    semaphore = device.create_semaphore(0)
    before, after = (HalFence.create_at(semaphore, value) for value in (0, 1))
    device.queue_copy(source, target, wait_semaphores=before, signal_semaphores=after)
    after.wait()
    return target.map().asarray(tensor.shape, tensor.dtype).copy()


class Restarted:
    """A module that a new process loads at each call; tensors are NumPy arrays."""

    def __init__(self, runner: Runner, module: Module) -> None:
        """Store the runner and the module for the processes that calls start."""
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
        """Return the tensor, which is already an array."""
        return tensor


def first_line(error: Exception) -> str:
    """Return the line with the cause; the others name IREE's own sources."""
    return (str(error).splitlines() or [type(error).__name__])[0]
