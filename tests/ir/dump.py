"""lathe dump of the best candidate of a form: dump.py LATHE [FIELD=VALUE...] VERB ARGUMENTS...

A test names the kernel it is about by fields of its config (kernel=mma split=2, as 'lathe explain --json' shows them;
'splits' is the factor), not by a rank that moves whenever a price does.
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
        if candidate["legal"] and all(str(fields[name]) == value for name, value in form.items()):
            return candidate["rank"]
    legal = sum(candidate["legal"] for candidate in candidates)
    sys.exit(f"none of {legal} legal candidates is {form}")


def main():
    lathe, arguments = sys.argv[1], sys.argv[2:]
    form = {}
    while "=" in arguments[0]:
        name, _, value = arguments.pop(0).partition("=")
        form[name] = value
    request = arguments[:]
    if "--stage" in request:  # of dump alone
        at = request.index("--stage")
        del request[at:at + 2]
    explained = json.loads(run([lathe, "explain", *request, "--json"]))
    rank = rank_of(explained["candidates"], form)
    sys.stdout.buffer.write(run([lathe, "dump", *arguments, "--candidate", str(rank)]))


main()
