"""Extracts the README's fenced C and C++ code, so that it is compiled and run as it stands.

usage: readme_snippets.py README.md OUTPUT_DIRECTORY

Writes readme_c.c and readme_cpp.cc from the one ```c and the one ```cpp block. The blocks are whole programs.
"""
import pathlib
import re
import sys

readme, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
output.mkdir(parents=True, exist_ok=True)
for language, name in (("c", "readme_c.c"), ("cpp", "readme_cpp.cc")):
    blocks = re.findall(rf"^```{language}\n(.*?)^```", readme.read_text(), re.MULTILINE | re.DOTALL)
    if len(blocks) != 1 or "int main" not in blocks[0]:
        sys.exit(f"{readme}: expected one ```{language} block with a main, found {len(blocks)}")
    path = output / name
    path.write_text(blocks[0])
