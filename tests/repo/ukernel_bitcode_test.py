"""Checks that the bitcode of a ukernel depends only on its source: it must not contain where or when it was compiled.

usage: ukernel_bitcode_test.py LLVM_DIS BITCODE...
"""
import pathlib
import re
import subprocess
import sys


def violations_of(path, text):
    # The source of build/.../argmax.rows.x86-64-v4.bc is argmax/ukernel/rows.c.
    op, name = path.name.split(".")[:2]
    source = re.search(r'^source_filename = "(.*)"$', text, re.MULTILINE)
    if not source or source.group(1) != f"{op}/ukernel/{name}.c":
        yield f"{path.name}: source_filename {source and source.group(1)}"
    for forbidden in ("!DICompileUnit", "!DIFile", "!llvm.ident", "ModuleID = '/"):
        if forbidden in text:
            yield f"{path.name}: contains {forbidden}"
    # Kernels are not linked with any library, so the bitcode must not need other functions.
    for name in re.findall(r"^declare .*@([\w.$]+)\(", text, re.MULTILINE):
        if not name.startswith("llvm."):
            yield f"{path.name}: needs {name}"


def main():
    tool, paths = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:]]
    assert paths, "no bitcode files were given"
    found = []
    for path in paths:
        with path.open("rb") as bitcode:
            text = subprocess.run([tool], stdin=bitcode, stdout=subprocess.PIPE, check=True).stdout.decode()
        assert "define " in text, f"{path} does not define a function"
        found += violations_of(path, text)
    print("\n".join(found) or f"{len(paths)} bitcode files depend only on their sources")
    sys.exit(1 if found else 0)


main()
