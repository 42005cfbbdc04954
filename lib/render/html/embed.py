#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""embed.py OUTPUT.c STYLE.css SCRIPT.js...: the style and the script of an HTML page as C strings,
with their SHA-256 for the page's policy. The scripts are one in the page, in the order given."""
import base64
import hashlib
import json
import re
import sys


def read(path):
    with open(path, encoding="ascii") as f:
        text = f.read()
    # Either would end the element early, or begin what hides its end.
    if re.search(r"</(script|style)|<!--|<script", text, re.I):
        sys.exit(f"{path}: holds what a browser would take for a tag")
    # What the file says of itself, and how it is indented, is for those who read the file.
    text = re.sub(r"\A/\*.*?\*/\n", "", text, flags=re.S)
    return re.sub(r"^\t+", "", text, flags=re.M)


def definition(name, text):
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    lines = "\n".join("\t" + json.dumps(line) for line in text.splitlines(keepends=True))
    return (f"const char snap_html_{name}[] =\n{lines};\n"
            f"const char snap_html_{name}_hash[] = \"{digest}\";\n")


def main(output, style, *scripts):
    script = "(() => {\n'use strict';\n" + "".join(map(read, scripts)) + "})();\n"
    with open(output, "w", encoding="ascii") as f:
        f.write("/* SPDX-License-Identifier: LGPL-2.1-or-later */\n"
                "/* Made by embed.py: see render/html/parts.h. */\n"
                "#include \"render/html/parts.h\"\n\n"
                + definition("style", "\n" + read(style)) + definition("script", "\n" + script))


main(*sys.argv[1:])
