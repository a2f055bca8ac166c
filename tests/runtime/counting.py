"""A backend that counts what it is asked to compile."""

from dataclasses import dataclass, field

from workbench.backends.device import Device
from workbench.backends.interpreter.backend import Interpreter
from workbench.backends.protocol import Executable
from workbench.loops.kernel import Program
from workbench.runtime.context import Context


@dataclass
class Counting:
    """The interpreter, with the programs it was given."""

    name: str = "counting"
    threads: int = 1
    device: Device = field(default_factory=lambda: Device("counting"))
    programs: list[Program] = field(default_factory=list[Program])

    def compile(self, program: Program) -> Executable:
        self.programs.append(program)
        return Interpreter().compile(program)


def counting_context() -> tuple[Context, Counting]:
    backend = Counting()
    return Context(backend), backend
