"""Checks that only src/base/status.h uses the Abseil codes that stand for LATHE_MISS and LATHE_CAPTURE_MISS.

usage: status_codes_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# Abseil's names of the two codes: constants, constructors and predicates. Also ErrnoToStatus, which returns them for
# some errors; use errno_status of base/status.h instead.
RESERVED = re.compile(r"\b(absl::|StatusCode::)((k|Is)?(OutOfRange|FailedPrecondition)(Error)?|ErrnoToStatus)\b")
# src/cli is not checked, because its statuses never cross the C API.
FOLDERS = ("src/base", "src/core", "src/oracle", "src/cache", "src/compiler", "src/options", "src/request", "src/observe",
           "src/compile_client", "src/dispatch", "src/tune", "src/api", "runtime", "kernels")
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
    for planted in ("return absl::OutOfRangeError(text);", "StatusCode::kFailedPrecondition", "absl::IsOutOfRange(s)", "absl::ErrnoToStatus(errno, path)"):
        assert RESERVED.search(planted), planted
    assert len(RESERVED.findall((root / DEFINES).read_text())) == 2
    found = list(violations(root))
    print("\n".join(found) or "only src/base/status.h uses the two codes")
    sys.exit(1 if found else 0)


main()
