"""Kernel text to LLVM text through numba's bytecode reader, type inference and lowering.

Third file of the front end. Only those three stages of numba run: names, operators and buffers are
typed and emitted by :mod:`~workbench_kernels.language` through small adapters, so that none of
numba's own overloads is ever loaded (they cost a second at first use) and a text means the same
under every numba. Its cast, constant and ``range`` implementations are the only ones used.

Invariant: what a text may name is the language and ``range``; everything else is an error.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any, Final, final

from workbench_kernels.codegen import module_header
from workbench_kernels.emit import ANY_FLOAT_MODE, Emitter
from workbench_kernels.kinds import (
    B1,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    Buffer,
    Kind,
    Scalar,
    argument_block,
)
from workbench_kernels.language import OPERATIONS, OPERATORS, pointer
from workbench_kernels.signatures import Operation
from workbench_kernels.untyped import llvm_ir, numba_core

# Float constants that Python has no literal for.
CONSTANTS: Final = {"inf": math.inf, "nan": math.nan}

_LOWERING_SIGNATURE: Final = Signature(
    [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD)
        for name in ("context", "builder", "signature", "values", "loc")
    ]
)


def llvm_text(source: str, buffers: Sequence[Buffer], symbol: str) -> str:
    """Return the unoptimised LLVM module whose function ``symbol`` is the kernel.

    Raises
    ------
    SyntaxError
        If the text is not Python, or does not define ``kernel(args, lo, hi)``.
    NameError
        If it uses a name that is not the language's.
    TypeError
        If an operation does not accept its operands, or a name has two types.
    """
    function = _function(source, buffers)
    # numba's compiler shares tables between threads and guards them with one lock.
    with numba_core("compiler_lock").global_compiler_lock:
        front_end = _front_end()
        try:
            return front_end.lower(function, buffers, symbol)
        except numba_core("errors").NumbaError as error:
            raise TypeError(_explanation(str(error), front_end.refusal, source)) from None


def _explanation(message: str, refusal: str | None, source: str) -> str:
    """Return what is wrong where, out of numba's long account of its search."""
    problem = refusal or message.strip().partition("\n")[0]
    found = re.search(r"<kernel> \((\d+)\)|<kernel>[^\n]*line (\d+)", message)
    if found is None:
        return problem
    number = int(found[1] or found[2])
    return f"{problem}, in line {number} of the kernel: {source.splitlines()[number - 1].strip()}"


def _function(source: str, buffers: Sequence[Buffer]) -> Any:
    names: dict[str, Any] = {"__builtins__": {"range": range}, **OPERATIONS, **CONSTANTS}
    names.update((operation.name, operation) for operation in map(pointer, buffers))
    exec(compile(source, "<kernel>", "exec"), names)
    function = names.get("kernel")
    code = getattr(function, "__code__", None)
    if code is None or code.co_varnames[: code.co_argcount] != ("args", "lo", "hi"):
        raise SyntaxError("a kernel text defines `def kernel(args, lo, hi):`")
    unknown = sorted(set(code.co_names) - names.keys() - {"range"})
    if unknown:
        raise NameError(f"a kernel text cannot name {', '.join(unknown)}")
    return function


@cache
def _front_end() -> "_FrontEnd":
    return _FrontEnd()


@final
class _FrontEnd:
    """numba's contexts, with the kernel language as their only content."""

    def __init__(self) -> None:
        self.types = numba_core("types")
        self.types_of_kinds: dict[Kind | None, Any] = {
            B1: self.types.boolean,
            I32: self.types.int32,
            I64: self.types.int64,
            U32: self.types.uint32,
            U64: self.types.uint64,
            F32: self.types.float32,
            F64: self.types.float64,
            None: self.types.none,
        }
        self.kinds_of_types: dict[Any, Kind | None] = {
            numba_type: kind for kind, numba_type in self.types_of_kinds.items()
        }
        self.buffer_type = self._define_buffer_type()
        self.typings = numba_core("typing.templates").Registry()
        self.lowerings = numba_core("imputils").Registry("workbench")
        self.typing_context = self._make_typing_context()
        self.target_context = self._make_target_context()
        self.known: set[Operation] = set()
        self.refusal: str | None = None
        self._teach_ranges()
        for key, operation in OPERATORS.items():
            self._teach(operation, key)
        for operation in OPERATIONS.values():
            self._teach(operation, operation)
        self._load()
        flags = numba_core("compiler").Flags()
        flags.error_model = "numpy"
        self.flags = flags
        self.lower_class = self._define_lower_class()
        self.emitter = Emitter(None)

    # What the language is to numba

    def _define_buffer_type(self) -> Any:
        """Return numba's type of a :class:`Buffer`; equal buffers make equal types."""
        datamodel = numba_core("datamodel")
        base_type: Any = self.types.Type
        base_model: Any = datamodel.models.PrimitiveModel

        class BufferType(base_type):  # type: ignore[misc]  # numba has no types
            def __init__(self, buffer: Buffer) -> None:
                self.buffer = buffer
                base_type.__init__(self, f"b{buffer.slot}of{buffer.slots}_{buffer.storage.dtype}")

        class BufferModel(base_model):  # type: ignore[misc]  # numba has no types
            def __init__(self, manager: Any, buffer_type: Any) -> None:
                element = Emitter(None).element_type(buffer_type.buffer)
                base_model.__init__(self, manager, buffer_type, element.as_pointer())

        datamodel.register_default(BufferType)(BufferModel)
        return BufferType

    def _type_of(self, kind: Kind | None) -> Any:
        found = self.types_of_kinds.get(kind)
        if found is None:
            found = self.buffer_type(kind)
            self.types_of_kinds[kind] = found
            self.kinds_of_types[found] = kind
        return found

    def _kind_of(self, numba_type: Any, operation: Operation) -> Kind:
        kind = self.kinds_of_types.get(self.types.unliteral(numba_type))
        if kind is None:
            raise self._refused(f"`{operation.name}` cannot take {numba_type}")
        return kind

    def _teach(self, operation: Operation, key: Any) -> None:
        """Make ``key`` (a Python operator, or the operation itself) typed and emitted as said."""
        templates = numba_core("typing.templates")
        self.known.add(operation)

        def generic(_template: Any, operands: Sequence[Any], _keywords: Any) -> Any:
            kinds = tuple(self._kind_of(operand, operation) for operand in operands)
            try:
                _, result = operation.sign(kinds)
            except TypeError as refusal:
                raise self._refused(f"`{operation.name}` {refusal}") from None
            return templates.signature(self._type_of(result), *map(self._type_of, kinds))

        members = {"key": key, "generic": generic}
        template = type(operation.name, (templates.AbstractTemplate,), members)
        self.typings.register(template)
        self.typings.register_global(key, self.types.Function(template))
        self.lowerings.lower(key, self.types.VarArg(self.types.Any))(self._lowering(operation))

    def _refused(self, problem: str) -> Exception:
        """Return the error that numba takes for "does not fit"; the first of a kernel is kept."""
        self.refusal = self.refusal or problem
        error: Exception = numba_core("errors").TypingError(problem)
        return error

    def _lowering(self, operation: Operation) -> Callable[..., Any]:
        def lower(
            context: Any, builder: Any, signature: Any, values: Sequence[Any], loc: Any = None
        ) -> Any:
            kinds = tuple(self._kind_of(operand, operation) for operand in signature.args)
            wanted, _ = operation.sign(kinds)
            emitter = self._emitter(builder)
            operands = [
                emitter.convert(value, kind, want)
                if isinstance(kind, Scalar) and isinstance(want, Scalar)
                else value
                for value, kind, want in zip(values, kinds, wanted, strict=True)
            ]
            result = operation.emit(emitter, operands, wanted)
            nothing = signature.return_type == self.types.none
            return context.get_dummy_value() if nothing else result

        # numba asks for it at each use, and Python takes 20 us to work it out.
        lower.__signature__ = _LOWERING_SIGNATURE  # type: ignore[attr-defined]
        return lower

    def _emitter(self, builder: Any) -> Emitter:
        if self.emitter.builder is not builder:
            self.emitter = Emitter(builder)
        return self.emitter

    def _teach_ranges(self) -> None:
        """Let ``range`` count in int64, whatever integers bound it."""
        types, templates = self.types, numba_core("typing.templates")
        builtins = numba_core("typing.builtins")
        base: Any = templates.AbstractTemplate

        class Range(base):  # type: ignore[misc]  # numba has no types
            key = range

            def generic(self, bounds: Sequence[Any], _keywords: Any) -> Any:
                return templates.signature(types.range_state64_type, *(types.int64 for _ in bounds))

        for template in (Range, builtins.GetIter, builtins.IterNext):
            self.typings.register(template)
        self.typings.register_global(range, types.Function(Range))

    # numba's contexts

    def _make_typing_context(self) -> Any:
        base: Any = numba_core("typing.context").BaseContext
        types = self.types

        class TypingContext(base):  # type: ignore[misc]  # numba has no types
            def refresh(self) -> None:
                """Everything is installed by hand; numba asks for this before each use."""

            def unify_pairs(self, first: Any, second: Any) -> Any:
                """One name has one type; numba would widen it silently."""
                first, second = types.unliteral(first), types.unliteral(second)
                if first is types.undefined:
                    return second
                return first if second in (first, types.undefined) else None

        return TypingContext()

    def _make_target_context(self) -> Any:
        base: Any = numba_core("cpu").CPUContext
        callconv = numba_core("callconv")

        sizes: dict[str, int] = {}

        class TargetContext(base):  # type: ignore[misc]  # numba has no types
            def get_abi_sizeof(self, llvm_type: Any) -> int:
                """Asked for every variable, and answered by parsing a module for it."""
                name = str(llvm_type)
                if name not in sizes:
                    sizes[name] = base.get_abi_sizeof(self, llvm_type)
                return sizes[name]

            def refresh(self) -> None:
                """Everything is installed by hand."""

            def post_lowering(self, _module: Any, _library: Any) -> None:
                """No fast-math rewriting, and no reference counts to link in."""

        context = TargetContext(self.typing_context, "cpu")
        return context.subtarget(error_model=callconv.create_error_model("numpy", context))

    def _load(self) -> None:
        """Install what was taught, and numba's casts, constants and ranges."""
        for name in ("numba.cpython.numbers", "numba.cpython.rangeobj"):
            import_module(name)  # they enter themselves in numba's registry
        imputils = numba_core("imputils")
        whole = imputils.builtin_registry
        part = imputils.Registry("of numba")
        part.casts, part.constants = whole.casts, whole.constants
        part.functions = [
            entry
            for entry in whole.functions
            if entry[0].__module__ in ("numba.cpython.rangeobj", "numba.core.imputils")
            and (entry[1] is range or entry[1] in ("getiter", "iternext"))
        ]
        self.target_context.install_registry(part)
        self._install()

    def _install(self) -> None:
        self.typing_context.install_registry(self.typings)
        self.target_context.install_registry(self.lowerings)

    # One kernel

    def lower(self, function: Any, buffers: Sequence[Buffer], symbol: str) -> str:
        """Return the LLVM text of a Python function in the kernel language."""
        new = [operation for operation in map(pointer, buffers) if operation not in self.known]
        for operation in new:
            self._teach(operation, operation)
        if new:
            self._install()
        self.refusal = None
        with numba_core("targetconfig").ConfigStack().enter(self.flags):
            module, inner = self._lower(function, len(buffers))
        self._wrap(module, inner, symbol)
        return str(module)

    def _lower(self, function: Any, slots: int) -> tuple[Any, Any]:
        bytecode, interpreter = numba_core("bytecode"), numba_core("interpreter")
        typed_passes, postproc = numba_core("typed_passes"), numba_core("postproc")
        identity = bytecode.FunctionIdentity.from_function(function)
        program = interpreter.Interpreter(identity).interpret(bytecode.ByteCode(identity))
        arguments = (self._type_of(argument_block(slots)), self.types.int64, self.types.int64)
        typed = typed_passes.type_inference_stage(
            self.typing_context, self.target_context, program, arguments, self.types.none
        )
        postproc.PostProcessor(program).run(emit_dels=True)
        descriptor = numba_core("funcdesc").PythonFunctionDescriptor.from_specialized_function(
            program,
            typed.typemap,
            typed.return_type,
            typed.calltypes,
            mangler=self.target_context.mangler,
            inline=True,
            noalias=False,
            abi_tags=[],
        )
        library = _Library()
        with self.target_context.push_code_library(library):
            self.lower_class(self.target_context, library, descriptor, program).lower()
        return library.module, library.module.get_global(descriptor.mangled_name)

    def _define_lower_class(self) -> Any:
        base: Any = numba_core("lowering").Lower

        class Lower(base):  # type: ignore[misc]  # numba has no types
            def emit_environment_object(self) -> None:
                """Emit nothing: a kernel has no Python environment."""

        return Lower

    def _wrap(self, module: Any, inner: Any, symbol: str) -> None:
        """Add the C function ``symbol`` around numba's function, which is inlined into it."""
        ir = llvm_ir()
        inner.linkage = "internal"
        inner.attributes.update(ANY_FLOAT_MODE)  # or it would not be inlined
        word = ir.IntType(64)
        signature = ir.FunctionType(ir.VoidType(), [word.as_pointer(), word, word])
        outer = ir.Function(module, signature, symbol)
        outer.attributes.add("nounwind")
        outer.attributes.update(ANY_FLOAT_MODE)
        builder = ir.IRBuilder(outer.append_basic_block())
        # numba's convention: a place for the result and one for an exception come first.
        places = [builder.alloca(argument.type.pointee) for argument in inner.args[:2]]
        builder.call(inner, [*places, *outer.args])
        builder.ret_void()
        module.name = symbol


@final
class _Library:
    """Stands in for numba's code library: keeps the one module that lowering makes."""

    def __init__(self) -> None:
        self.module: Any = None

    def create_ir_module(self, name: str) -> Any:
        """Return an empty module for this machine."""
        module = llvm_ir().Module(name)
        module.triple, module.data_layout = module_header()
        return module

    def add_ir_module(self, module: Any) -> None:
        """Keep the finished module."""
        self.module = module

    def add_linking_library(self, library: Any) -> None:
        """Refuse numba's own compiled functions: an object file must stand alone."""
        raise TypeError(f"a kernel cannot use {library}")
