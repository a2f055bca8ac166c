"""LLVM text in, object code for this machine out.

Comes after the front end, whatever wrote the text. The optimiser runs once, at its second level
(the third takes a tenth longer for code of the same speed), with loop and superword vectorisation.
Object code is for exactly the processor the process runs on.

Invariant: the same text gives the same bytes on the same processor and LLVM.
"""

import platform
from functools import cache
from typing import Any

from workbench_kernels.untyped import llvm_binding


@cache
def target_machine() -> Any:
    """Return LLVM's description of this processor, made once."""
    return make_target_machine()


def make_target_machine() -> Any:
    """Return a description of this processor of the caller's own; it takes half a millisecond."""
    llvm = llvm_binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


@cache
def module_header() -> tuple[str, str]:
    """Return the target triple and data layout that every module states."""
    return llvm_binding().get_process_triple(), str(target_machine().target_data)


@cache
def has_float16_instructions() -> bool:
    """Return whether the processor converts float16; where it does not, nothing would."""
    features = llvm_binding().get_host_cpu_features()
    return bool(features.get("f16c", platform.machine().lower() in ("aarch64", "arm64")))


def optimised(text: str) -> Any:
    """Return the parsed, checked and optimised LLVM module of ``text``."""
    llvm = llvm_binding()
    machine = target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    _free(passes)
    return module


def _free(passes: Any) -> None:
    """Free a list of passes, 76 KB that llvmlite 0.50 forgets when its own object goes.

    There the method that frees it is hidden by an empty one of a class before it.
    """
    llvm_binding().newpassmanagers.NewPassManager._dispose(passes)
    passes.detach()


def object_code(text: str) -> bytes:
    """Return the relocatable object file of the module in ``text``."""
    emitted: bytes = target_machine().emit_object(optimised(text))
    return emitted
