"""Checks the shell blocks of README.md and docs/: every `./dev VERB` and every `lathe` command in them must exist.

usage: document_commands_test.py SOURCE_ROOT LATHE
"""
import pathlib
import re
import subprocess
import sys

root, lathe = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
LATHE_LINE = re.compile(r"^(?:\w+=\S* )*(?:build/bin/)?lathe (.*?)\s*(?:#.*)?$", re.MULTILINE)
shell_of = {document: "\n".join(re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL))
            for document in [root / "README.md", *sorted((root / "docs").glob("*.md"))]}

dev_help = subprocess.run([root / "dev", "help"], capture_output=True, text=True, check=True).stdout
problems, dev_verbs, lathe_lines = [], set(), 0
for document, shell in shell_of.items():
    for verb in re.findall(r"^\./dev (\w+)", shell, re.MULTILINE):
        dev_verbs.add(verb)
        if f"./dev {verb}" not in dev_help:
            problems.append(f"{document}: ./dev has no verb {verb}")
    for line in LATHE_LINE.findall(shell):
        lathe_lines += 1
        # With --help the command checks the verb and the names of all flags, and runs nothing.
        result = subprocess.run([lathe, *line.split(), "--help"], capture_output=True, text=True)
        if result.returncode != 0:
            problems.append(f"{document}: lathe {line}: {result.stderr}")

if not {"demo", "test"} <= dev_verbs or lathe_lines < 20:
    problems.append(f"too little was found: ./dev {sorted(dev_verbs)} and {lathe_lines} lathe commands")
print("\n".join(problems) or f"{len(dev_verbs)} dev verbs and {lathe_lines} lathe commands")
sys.exit(1 if problems else 0)
