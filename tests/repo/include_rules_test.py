"""Checks every #include line of the sources: a table says which folder may include which.

usage: include_rules_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

BELOW_DISPATCH = {"include", "src/base", "src/core", "src/oracle", "src/cache", "src/options", "src/request", "src/observe",
                  "src/compile_client", "runtime", "kernels"}
# Folder -> the folders that it may include besides itself. If several folders match a path, the longest one counts.
ALLOWED = {
    "include": set(),
    "src/base": set(),
    "src/core": {"src/base"},
    "kernels": {"src/base", "src/core"},
    "src/oracle": {"src/base", "src/core", "kernels"},
    "src/cache": {"src/base", "src/core"},
    "src/compiler": {"src/base", "src/core", "kernels"},
    "runtime": {"src/base", "src/core"},
    "src/options": {"include", "src/base", "src/core", "src/cache", "runtime"},
    "src/request": {"include", "src/base", "src/core", "src/options"},
    "src/observe": {"include", "src/base", "src/core", "src/cache", "src/options", "src/request"},
    "src/compile_client": {"include", "src/base", "src/core", "src/cache", "src/options", "runtime"},
    "src/dispatch": BELOW_DISPATCH,
    "src/tune": BELOW_DISPATCH | {"src/dispatch"},
    "src/api": BELOW_DISPATCH | {"src/dispatch", "src/tune"},
    "src/models": set(),
    "src/reference": {"include"},
    "src/cli": {"include", "src/models", "src/reference"},
    "examples": {"include"},
    "integrations": {"include"},
}
# In kernels/, candidate tables are part of liblathe, and everything else is part of the compiler library.
CANDIDATE_TABLE = re.compile(r"^kernels/(.*/)?(candidates|families)[^/]*$")
# Headers of MLIR and LLVM, and the files that may include them.
COMPILER_HEADER = re.compile(r"^(mlir|llvm|llvm-c|lld|mlir-c)/")
MAY_SEE_COMPILER_HEADERS = re.compile(r"^(src/compiler/|kernels/|runtime/cpu/)")
# Headers of GPU toolkits. Only runtime/ may include them.
GPU_HEADER = re.compile(r"^(cuda|hip|hsa|nvrtc|nvml)[A-Za-z_0-9]*(\.h|/)")
# Headers that liblathe must not use, because it must survive a failed allocation: absl::StrFormat allocates in a
# destructor, Abseil's hash tables are not safe against exceptions, and streams hide exceptions.
FAILS_WITHOUT_MEMORY = re.compile(r"^(absl/container/(flat|node)_hash_|absl/strings/str_format\.h|[io]?f?stream$|sstream$)")
IN_LIBLATHE = re.compile(r"^(src/(base|core|cache|oracle|options|request|observe|compile_client|dispatch|tune|api)/|"
                         r"runtime/|kernels/.*(candidates|families)[^/]*$)")
# Exceptions: number_text.h formats into an array, and the tools are separate programs.
MAY_FAIL_WITHOUT_MEMORY = re.compile(r"^src/(observe/number_text\.h|(dispatch|compile_client)/tools/)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = ("*.h", "*.hpp", "*.cc", "*.c")


def folder_of(path):
    matches = [f for f in ALLOWED if path == f or path.startswith(f + "/")]
    return max(matches, key=len) if matches else None


def resolve(root, source, name):
    """The path, relative to the root, of the project's file that the line includes; None for any other header."""
    for base in (root, root / "src", root / "include", source.parent):
        if (base / name).is_file():
            return (base / name).resolve().relative_to(root).as_posix()
    return None


def violations_of(root, source):
    path = source.relative_to(root).as_posix()
    folder = folder_of(path)
    candidate_table = CANDIDATE_TABLE.match(path)
    for number, line in enumerate(source.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        where = f"{path}:{number}: {name}"
        if COMPILER_HEADER.match(name) and (candidate_table or not MAY_SEE_COMPILER_HEADERS.match(path)):
            yield f"{where}: only src/compiler, the emitters in kernels, and runtime/cpu may include MLIR and LLVM headers"
        if GPU_HEADER.match(name) and not path.startswith("runtime/"):
            yield f"{where}: only runtime may include CUDA and HIP headers"
        if (FAILS_WITHOUT_MEMORY.match(name) and IN_LIBLATHE.match(path)
                and not MAY_FAIL_WITHOUT_MEMORY.match(path)):
            yield f"{where}: liblathe must not include this, because it is not safe if an allocation fails"
        target = resolve(root, source, name)
        if target is None:
            continue
        into = folder_of(target)
        allowed = set(ALLOWED[folder]) | {folder}
        if folder == "kernels" and not candidate_table:
            allowed.add("src/compiler")
        if into not in allowed:
            yield f"{where}: {folder} may include {', '.join(sorted(allowed))}, not {into or target}"


def check(root):
    found, lines = [], 0
    for folder in ALLOWED:
        for pattern in SOURCES:
            for source in sorted((root / folder).rglob(pattern)):
                if folder_of(source.relative_to(root).as_posix()) != folder:
                    continue
                lines += 1
                found += violations_of(root, source)
    return found, lines


def check_the_checker():
    """Checks that each rule catches a violation, with files made for this."""
    import tempfile

    planted = {
        "src/cache/x.cc": '#include "oracle/oracle.h"\n',
        "runtime/cpu/x.cc": '#include "src/compiler/emit.h"\n',
        "src/cli/x.cc": '#include "core/key.h"\n',
        "src/api/x.cc": '#include <llvm/ADT/STLExtras.h>\n',
        "kernels/matmul/candidates.cc": '#include "mlir/IR/Builders.h"\n',
        "src/oracle/x.cc": "#include <cuda.h>\n",
        "src/core/x.cc": '#include "cache/cache.h"\n',
        "src/request/x.cc": '#include "dispatch/device.h"\n',
        "src/models/x.cc": '#include "cli/session.h"\n',
        "src/api/y.cc": '#include "absl/container/flat_hash_map.h"\n',
        "runtime/gpu/y.cc": "#include <fstream>\n",
    }
    legal = {
        "kernels/matmul/emit.cc": '#include "compiler/emit.h"\n#include "mlir/IR/Builders.h"\n',
        "runtime/cpu/y.cc": '#include "llvm/Support/Error.h"\n#include "core/key.h"\n',
    }
    headers = ["src/oracle/oracle.h", "src/compiler/emit.h", "src/core/key.h", "src/cache/cache.h",
               "src/dispatch/device.h", "src/cli/session.h"]
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory).resolve()
        for path, text in {**planted, **legal, **{h: "" for h in headers}}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        caught = {violation.split(":")[0] for violation in check(root)[0]}
    assert caught == set(planted), f"planted {sorted(planted)}, caught {sorted(caught)}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    check_the_checker()
    found, files = check(root)
    assert files > 20, f"only {files} sources in {root}"
    print("\n".join(found) or f"{files} sources follow the rules")
    sys.exit(1 if found else 0)


main()
