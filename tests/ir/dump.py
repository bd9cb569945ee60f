"""Runs lathe dump for the best candidate with given config fields.

Usage: dump.py LATHE [FIELD=VALUE...] VERB ARGUMENTS...

The fields are those of 'lathe explain --json', such as kernel=mma split=2; 'splits' is the number of splits. A test
selects its kernel by fields and not by rank, because the rank changes with every change of a cost model.
"""
import json
import subprocess
import sys


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout


def rank_of(candidates, form):
    for candidate in candidates:
        fields = {**candidate["config"], "splits": candidate["splits"]}
        if candidate["legal"] and all(str(fields.get(name)) == value for name, value in form.items()):
            return candidate["rank"]
    legal = sum(candidate["legal"] for candidate in candidates)
    sys.exit(f"none of {legal} legal candidates has {form}")


def main():
    lathe, arguments = sys.argv[1], sys.argv[2:]
    form = {}
    while "=" in arguments[0]:
        name, _, value = arguments.pop(0).partition("=")
        form[name] = value
    request = arguments[:]
    if "--stage" in request:  # explain does not have this flag
        at = request.index("--stage")
        del request[at:at + 2]
    explained = json.loads(run([lathe, "explain", *request, "--json"]))
    rank = rank_of(explained["candidates"], form)
    sys.stdout.buffer.write(run([lathe, "dump", *arguments, "--candidate", str(rank)]))


main()
