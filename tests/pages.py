"""Pages of HTML that the tests look into."""

import re
from html.parser import HTMLParser

# What runs.jsonl says of a command, without `argv`.
RUN = {
    "time": "2026-01-02T03:04:05+0000",
    "python": "3.11.7",
    "versions": {"keras": "3.10.0", "electra_tf": None},
    "git_commit": "0123abc",
}


class _Checker(HTMLParser):
    """Collects ids and addresses, and checks that elements are closed."""

    VOID = frozenset(("meta", "link"))

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.addresses += [
            attributes[name]
            for name in ("href", "src", "xlink:href")
            if name in attributes
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_whole(page: str, links: tuple[str, ...] = ()) -> None:
    """Elements are closed; nothing is loaded from elsewhere but by `links`."""
    checker = _Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    for address in checker.addresses:
        if not address.startswith("data:") and address not in links:
            assert address[1:] in checker.ids
    assert not re.search(r"@import|url\((?!#)|<script", page)
    # Colours are the page's.
    assert "#0" not in re.sub(r'="#[^"]*"|url\(#', "", page.split("<main>")[1])
