"""Checks the documents: folder READMEs stay short, and every path a document links to exists.

usage: documents_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

LONGEST_FOLDER_README = 40

root = pathlib.Path(sys.argv[1])
documents = [p for p in root.rglob("*.md") if not any(part.startswith(("build", ".")) for part in p.relative_to(root).parts)]
assert root / "README.md" in documents, f"no README.md under {root}"
problems = []
for document in documents:
    text = document.read_text()
    if document.name == "README.md" and document.parent != root:
        lines = len(text.splitlines())
        if lines > LONGEST_FOLDER_README:
            problems.append(f"{document}: {lines} lines, at most {LONGEST_FOLDER_README}")
    for link in re.findall(r"\]\(([^)#\s]+)\)", text):
        if "://" not in link and not (document.parent / link).exists():
            problems.append(f"{document}: there is no {link}")
print("\n".join(problems) or f"{len(documents)} documents")
sys.exit(1 if problems else 0)
