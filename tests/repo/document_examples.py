"""Extracts the example of a document, so that it can be compiled and run unchanged.

usage: document_examples.py DOCUMENT LANGUAGE SOURCE EXPECTED

Writes the document's first block in this language (c or cpp), which must be a whole program, to SOURCE, and the lines
that it prints to EXPECTED. Every printf statement of an example must end with a comment that gives the printed line:

    printf("%g %g\n", d[0], d[1]); /* 19 22 */
"""
import pathlib
import re
import sys

PRINTF = re.compile(r"""(?<!\w)printf\((?:[^;"]|"(?:[^"\\\n]|\\.)*")*\);   # the statement: not fprintf, not snprintf
                        [ \t]*(?:/\*(?P<c>.*?)\*/|//(?P<cpp>.*))?          # what it prints""", re.VERBOSE)


def example_of(text, language):
    """The first block in this language, or None."""
    block = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return block[1] if block else None


def printed_by(example):
    """The lines that an example prints. ValueError names a printf statement without a comment."""
    lines = []
    for statement in PRINTF.finditer(example):
        line = (statement["c"] or statement["cpp"] or "").strip()
        if not line:
            raise ValueError(f"add a comment with the printed line to: {statement[0]}")
        lines.append(line)
    if not lines:
        raise ValueError("the example has no printf statement, so nothing would be checked")
    return lines


def main(document, language, source, expected):
    example = example_of(pathlib.Path(document).read_text(), language)
    if example is None or "int main" not in example:
        sys.exit(f"{document}: the first ```{language} block must be a program with a main")
    try:
        lines = printed_by(example)
    except ValueError as error:
        sys.exit(f"{document}: the ```{language} example: {error}")
    for path, text in ((source, example), (expected, "\n".join(lines) + "\n")):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
