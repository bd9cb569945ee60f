"""Checks the documents: folder READMEs and pages are short, links are valid, a test runs every program, and the table
of environment variables is complete.

usage: documents_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

LONGEST_FOLDER_README = 40  # lines
LONGEST_PAGE = 8192  # bytes, for a page in docs/ with an example

root = pathlib.Path(sys.argv[1])
text_of = {p: p.read_text() for p in root.rglob("*.md")
           if not any(part.startswith(("build", ".")) for part in p.relative_to(root).parts)}
assert root / "README.md" in text_of, f"no README.md under {root}"
problems = []


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """The names that GitHub gives the headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


listed = set(re.findall(r"^\s*document_example\(\w+ (\S+) (\w+)\)", (root / "tests/repo/CMakeLists.txt").read_text(),
                        re.MULTILINE))
assert len(listed) > 2, "tests/repo/CMakeLists.txt lists no examples"
for document, text in text_of.items():
    name = document.relative_to(root).as_posix()
    if document.name == "README.md" and document.parent != root:
        lines = len(text.splitlines())
        if lines > LONGEST_FOLDER_README:
            problems.append(f"{name}: {lines} lines, but at most {LONGEST_FOLDER_README} are allowed")
    for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", without_code(text)):
        target = (document.parent / path).resolve() if path else document.resolve()
        if "://" in path:
            continue
        if not target.exists():
            problems.append(f"{name}: the link target {path} does not exist")
        elif anchor and anchor not in anchors(target.read_text()):
            problems.append(f"{name}: {path} has no heading for #{anchor}")
    languages = {language for language, code in re.findall(r"^```(c|cpp)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
                 if "int main" in code}
    for language in languages:
        if (name, language) not in listed:
            problems.append(f"{name}: no test runs its {language} program; add it to tests/repo/CMakeLists.txt")
    if languages and document.parent == root / "docs" and len(text.encode()) > LONGEST_PAGE:
        problems.append(f"{name}: {len(text.encode())} bytes, but at most {LONGEST_PAGE} are allowed")

environment = (root / "docs/environment.md").read_text()
documented = set(re.findall(r"`(LATHE_[A-Z_]+)`", "".join(re.findall(r"^\|([^|]*)\|", environment, re.MULTILINE))))
read = {variable for folder in ("src", "runtime") for suffix in ("*.cc", "*.h") for p in (root / folder).rglob(suffix)
        for variable in re.findall(r'"(LATHE_[A-Z_]+)"', p.read_text())}
if documented != read:
    problems.append(f"docs/environment.md lists {sorted(documented - read)}, which no code reads, and does not list "
                    f"{sorted(read - documented)}")
print("\n".join(problems) or f"{len(text_of)} documents, {len(listed)} examples, {len(read)} environment variables")
sys.exit(1 if problems else 0)
