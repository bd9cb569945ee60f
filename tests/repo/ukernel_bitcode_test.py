"""Checks that ukernels' bitcode is a function of its source alone: nothing in it says where or when it was compiled.

usage: ukernel_bitcode_test.py LLVM_DIS BITCODE...
"""
import pathlib
import re
import subprocess
import sys


def violations_of(path, text):
    # build/.../argmax.rows.x86-64-v4.bc is of argmax/ukernel/rows.c.
    op, name = path.name.split(".")[:2]
    source = re.search(r'^source_filename = "(.*)"$', text, re.MULTILINE)
    if not source or source.group(1) != f"{op}/ukernel/{name}.c":
        yield f"{path.name}: source_filename {source and source.group(1)}"
    for forbidden in ("!DICompileUnit", "!DIFile", "!llvm.ident", "ModuleID = '/"):
        if forbidden in text:
            yield f"{path.name}: holds {forbidden}"
    # Linked into a kernel that has no library.
    for name in re.findall(r"^declare .*@([\w.$]+)\(", text, re.MULTILINE):
        if not name.startswith("llvm."):
            yield f"{path.name}: needs {name}"


def main():
    tool, paths = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:]]
    assert paths, "no bitcode"
    found = []
    for path in paths:
        with path.open("rb") as bitcode:
            text = subprocess.run([tool], stdin=bitcode, stdout=subprocess.PIPE, check=True).stdout.decode()
        assert "define " in text, f"{path} defines nothing"
        found += violations_of(path, text)
    print("\n".join(found) or f"{len(paths)} files of bitcode say nothing of where they were made")
    sys.exit(1 if found else 0)


main()
