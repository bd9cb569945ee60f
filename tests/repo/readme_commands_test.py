"""Checks that the README's commands exist: every `./dev VERB` and every `lathe VERB` it shows.

usage: readme_commands_test.py SOURCE_ROOT LATHE
"""
import pathlib
import re
import subprocess
import sys

root, lathe = pathlib.Path(sys.argv[1]), sys.argv[2]
shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL))

dev_help = subprocess.run([root / "dev", "help"], capture_output=True, text=True, check=True).stdout
dev_verbs = set(re.findall(r"^\./dev (\w+)", shell, re.MULTILINE))
assert {"demo", "test"} <= dev_verbs, f"the README shows ./dev {sorted(dev_verbs)}, not both demo and test"
for verb in dev_verbs:
    assert f"./dev {verb}" in dev_help, f"./dev has no verb {verb}"

lathe_lines = re.findall(r"^(?:build/bin/)?lathe (.*?)\s*(?:#.*)?$", shell, re.MULTILINE)
assert len(lathe_lines) >= 5, f"the README shows {len(lathe_lines)} lathe commands"
for line in lathe_lines:
    # --help checks the verb and every flag's name without running anything.
    result = subprocess.run([lathe, *line.split(), "--help"], capture_output=True, text=True)
    assert result.returncode == 0, f"lathe {line}: {result.stderr}"
print(f"{len(dev_verbs)} dev verbs and {len(lathe_lines)} lathe commands")
