# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pages that the tool writes, taken apart without a browser: their tags, policy, text and data."""
import base64
import collections
import hashlib
import html.parser
import json
import re

# All that a page may consist of, and how often; no attribute but these.
ELEMENTS = {"html": 1, "head": 1, "meta": 5, "title": 1, "style": 1, "body": 1, "header": 1, "h1": 1,
            "main": 1, "details": 1, "summary": 1, "pre": 1, "script": 2}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "id", "open", "tabindex", "role",
              "aria-label", "type"}


class Page(html.parser.HTMLParser):
    """`complaints` tells what no page may have."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.elements, self.complaints = collections.Counter(), []
        self.texts, self.meta, self.open = {}, {}, []
        self.feed(document)
        self.close()
        if dict(self.elements) != ELEMENTS:
            self.complaints.append(f"elements {dict(self.elements)}")
        data = self.texts.get("script#data", "")
        if "<" in data:
            self.complaints.append("a < in the data")
        self.data = json.loads(data)
        self.check_policy()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements[tag] += 1
        self.complaints += [f"attribute {name} of {tag}" for name in attrs if name not in ATTRIBUTES]
        if tag == "meta":
            self.meta[attrs.get("http-equiv") or attrs.get("name") or "charset"] = attrs.get("content")
        else:
            self.open.append(tag + ("#" + attrs["id"] if "id" in attrs else ""))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop().split("#")[0] != tag:
            self.complaints.append(f"the end of {tag} is at the wrong place")

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data

    def handle_comment(self, data):
        self.complaints.append(f"a comment: {data[:80]}")

    def check_policy(self):
        def hashed(name):
            digest = hashlib.sha256(self.texts.get(name, "").encode()).digest()
            return f"'sha256-{base64.b64encode(digest).decode()}'"
        wanted = {"default-src 'none'", f"script-src {hashed('script')}", f"style-src {hashed('style')}",
                  "base-uri 'none'", "form-action 'none'"}
        got = set(re.split(r"; ", self.meta.get("Content-Security-Policy") or ""))
        if got != wanted:
            self.complaints.append(f"policy {got}, not {wanted}")

    def names(self):
        """All texts of the tables."""
        return set(self.data["texts"])


def load(path):
    with open(path, encoding="utf-8") as f:
        return Page(f.read())
