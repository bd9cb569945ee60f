"""Checks the ABI of liblathe: the exported functions with their prototypes and symbol versions, the layout of every
public struct, and the value of every enumerator must be those in tests/api/abi.txt. Also checks that no library destroys
global objects at exit, where a background thread may still use them (src/base/keep_globals.cc).

usage: abi_test.py SOURCE_ROOT C_COMPILER NM LIBLATHE [LIBLATHE_COMPILER] [--update]

--update writes tests/api/abi.txt instead. A patch release may not change that file (docs/deployment.md, "Upgrade").
"""
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

ADVICE = """\
The ABI of liblathe has changed: '-' is what tests/api/abi.txt says, '+' is what was built.
If this is an accident, undo it: programs that were built before would break.
If it is intended, and this version is released already, change the minor version in CMakeLists.txt,
include/lathe/types.h and src/api/lathe.map. Then update tests/api/abi.txt:
  {command} --update"""


def headers_of(root):
    return sorted((root / "include/lathe").glob("*.h"))


def text_of_headers(root):
    """The C headers, without comments and preprocessor lines."""
    text = "\n".join(header.read_text() for header in headers_of(root))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE)


def one_line(text):
    return re.sub(r"\( | (?=\))", lambda match: match[0].strip(), " ".join(text.split()))


def prototypes(text):
    """Name of each public function -> its prototype."""
    found = [one_line(declaration) for declaration in re.findall(r"\bLATHE_API\b([^;{]+);", text)]
    return {re.search(r"(\w+)\(", prototype)[1]: prototype for prototype in found}


def callbacks(text):
    return [one_line(found) for found in re.findall(r"\btypedef ([^;{]+\(\*\w+\)\([^;{]*\));", text)]


def fields(body):
    """(declaration, name) of each field of a struct."""
    for declaration in filter(None, map(one_line, body.split(";"))):
        kind, names = re.fullmatch(r"(.*?[\w*] ?)\b(\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*)", declaration).groups()
        for name in names.split(", "):
            yield f"{kind.strip()} {name}", name.split("[")[0]


def program(text, headers):
    """A C program that prints the layouts of structs and the values of enumerators."""
    lines = []
    structs = re.findall(r"\btypedef struct (\w+) \{(.*?)\} \1;", text, re.DOTALL)
    assert len(structs) == len(re.findall(r"\bstruct \w+ \{", text)), "write 'typedef struct NAME {...} NAME;'"
    for name, body in sorted(structs):
        lines.append(f'printf("struct {name}: %zu bytes\\n", sizeof({name}));')
        for declaration, field in fields(body):
            lines.append(f'printf("  %zu: {declaration}, %zu bytes\\n", offsetof({name}, {field}), '
                         f"sizeof((({name}*)0)->{field}));")
    for name, body in sorted(re.findall(r"\btypedef enum (\w+) \{(.*?)\} \1;", text, re.DOTALL)):
        lines.append(f'printf("enum {name}: %zu bytes\\n", sizeof({name}));')
        for value in re.findall(r"\bLATHE_\w+", body):
            lines.append(f'printf("  {value} = %d\\n", (int){value});')
    assert len(lines) > 100, "too few structs and enums were found in the headers"
    includes = "".join(f"#include <{header}>\n" for header in ("stddef.h", "stdio.h", *headers))
    return f"{includes}int main(void) {{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"


def layouts(root, compiler, text):
    with tempfile.TemporaryDirectory() as directory:
        source, executable = pathlib.Path(directory, "layouts.c"), pathlib.Path(directory, "layouts")
        source.write_text(program(text, [f"lathe/{header.name}" for header in headers_of(root)]))
        subprocess.run([compiler, "-std=c99", f"-I{root / 'include'}", source, "-o", executable], check=True)
        return subprocess.run([executable], check=True, capture_output=True, text=True).stdout.splitlines()


def exports(nm, library):
    """Name of each exported symbol -> its version, "" if it has none."""
    lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    symbols = [line.split()[-1] for line in lines if line.split()[-2] != "A"]  # A: the version itself
    return dict(re.fullmatch(r"(\w+)(?:@+(.*))?", symbol).groups(default="") for symbol in symbols)


def destroys_globals(nm, library):
    undefined = subprocess.run([nm, "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    return re.search(r"\b(__cxa_atexit|atexit|on_exit)\b", undefined) is not None


def main():
    update = "--update" in sys.argv
    root, compiler, nm, library, *others = [argument for argument in sys.argv[1:] if argument != "--update"]
    root = pathlib.Path(root).resolve()
    text = text_of_headers(root)
    declared, exported = prototypes(text), exports(nm, library)
    major, minor = (re.search(rf"LATHE_VERSION_{part} (\d+)", (root / "include/lathe/types.h").read_text())[1]
                    for part in ("MAJOR", "MINOR"))
    problems = [f"{name} is declared in include/lathe, but {library} does not export it"
                for name in sorted(declared.keys() - exported.keys())]
    problems += [f"{library} exports {name}, but no header in include/lathe declares it with LATHE_API"
                 for name in sorted(exported.keys() - declared.keys())]
    problems += [f"{name} has the symbol version '{version}', expected LATHE_{major}.{minor}: see src/api/lathe.map"
                 for name, version in sorted(exported.items()) if version != f"LATHE_{major}.{minor}"]
    lines = [f"{exported.get(name, '')} {prototype}" for name, prototype in sorted(declared.items())]
    lines += [f"callback {callback}" for callback in callbacks(text)] + layouts(root, compiler, text)
    for other in others:  # the compiler library, whose functions only liblathe calls
        problems += [f"{other} exports {name}, but only lathe_compiler_* may be visible"
                     for name in exports(nm, other) if not name.startswith("lathe_compiler_")]
        if not exports(nm, other):
            problems.append(f"{other} exports nothing")
    problems += [f"{path} registers destructors with __cxa_atexit: a thread of the library may run during exit()"
                 for path in (library, *others) if destroys_globals(nm, path)]
    if problems:
        sys.exit("\n".join(problems))

    expected = root / "tests/api/abi.txt"
    if update:
        expected.write_text("\n".join(lines) + "\n")
        return
    diff = list(difflib.unified_diff(expected.read_text().splitlines(), lines, "tests/api/abi.txt", "built", n=0,
                                     lineterm=""))
    if diff:
        print("\n".join(diff))
        sys.exit(ADVICE.format(command=" ".join(["python3", *sys.argv])))
    print(f"{len(exported)} functions and {len(lines) - len(exported)} other lines as in tests/api/abi.txt")


main()
