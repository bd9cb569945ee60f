"""Checks that the codegen id covers all sources that shape generated code, so that changed code gets another key.

usage: codegen_sources_test.py SOURCE_ROOT SOURCE...    the sources in the codegen id

The sources of kernels and src/compiler are among them. If they include a header of src/core or src/base, directly or
not, that header and its source must be among them too.
"""
import pathlib
import re
import sys

# Sources that do not shape code, or whose effect is in the key itself.
APART = {
    "base/file_size_signal", "base/own_thread", "base/small_file", "base/standard_streams",
    "base/status",
    "core/assembler_log", "core/assembler_search",  # for ptxas, whose version is in the metadata
    "core/compiler_abi",  # has its own version
    "core/cpu_costs",  # rank plans
    "core/json", "core/json_object", "core/key",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:core|base)/[^"]+)"', re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    covered = {pathlib.Path(p).relative_to(root).as_posix() for p in sys.argv[2:]}
    todo = [p for p in covered if p.endswith((".cc", ".h"))]
    seen = set(todo)
    missing = []
    while todo:
        source = todo.pop()
        for header in INCLUDE.findall((root / source).read_text()):
            stem = header[:-2]
            if stem in APART:
                continue
            for path in (f"src/{header}", f"src/{stem}.cc"):
                if path in seen or not (root / path).exists():
                    continue
                seen.add(path)
                todo.append(path)
                if path not in covered:
                    missing.append(f"{path} (included by {source})")
    for path in sorted(missing):
        print(f"the codegen id does not cover {path}")
    if len(covered) < 100:
        print(f"only {len(covered)} sources were given, expected at least 100")
        return 1
    return 1 if missing else 0


sys.exit(main())
