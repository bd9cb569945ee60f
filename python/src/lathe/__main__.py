"""python -m lathe: the `lathe` command of the package."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lathe")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
