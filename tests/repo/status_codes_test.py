"""The codes of LATHE_MISS and LATHE_CAPTURE_MISS are made by the functions of src/base/status.h alone.

usage: status_codes_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# Abseil's names of the two codes: constants, constructors and predicates.
RESERVED = re.compile(r"\b(absl::|StatusCode::)(k|Is)?(OutOfRange|FailedPrecondition)(Error)?\b")
# The command line is a client of the C API: its own statuses never cross it.
FOLDERS = ("src/base", "src/core", "src/oracle", "src/cache", "src/compiler", "src/api", "runtime", "kernels")
DEFINES = "src/base/status.h"


def violations(root):
    for folder in FOLDERS:
        for source in sorted((root / folder).rglob("*")):
            path = source.relative_to(root).as_posix()
            if source.suffix not in (".h", ".cc") or path == DEFINES:
                continue
            for number, line in enumerate(source.read_text().splitlines(), 1):
                if RESERVED.search(line):
                    yield f"{path}:{number}: {line.strip()}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    for planted in ("return absl::OutOfRangeError(text);", "StatusCode::kFailedPrecondition", "absl::IsOutOfRange(s)"):
        assert RESERVED.search(planted), planted
    assert len(RESERVED.findall((root / DEFINES).read_text())) == 2
    found = list(violations(root))
    print("\n".join(found) or "no source but src/base/status.h names the two codes")
    sys.exit(1 if found else 0)


main()
