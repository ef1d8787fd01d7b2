"""What mkdocs.yml cannot say of the site: it has the README, and `<int32>`."""

import html
import pathlib
import posixpath
import re
import urllib.parse

import markdown
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_MARKDOWN_ADDRESS = re.compile(r'(href="[\w-]+)\.(?:md|ipynb)(?=["#])')
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


class _NoHtml(markdown.Extension):
    """Text has no HTML: "<int32>[B, L]" is a shape."""

    def extendMarkdown(self, md):
        md.inlinePatterns.deregister("html")


def on_config(config):
    """Adds `_NoHtml` for all pages, docstrings included."""
    config.markdown_extensions.append(_NoHtml())
    return config


def on_files(files, config):
    """Adds README.md as the first page."""
    text = (_ROOT / "README.md").read_text("utf-8")
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links between README.md, docs/ and the rest into the site's."""
    of_readme = page.file.src_uri == "index.md"
    name = "README.md" if of_readme else f"docs/{page.file.src_uri}"

    def link(match):
        text, path, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if not (_ROOT / path).exists():
            raise PluginError(f"{name}: a link to {path}, which is not there")
        if path == "README.md":
            return f"[{text}](index.md{anchor})"
        if path.startswith("docs/"):
            return f"[{text}]({path.removeprefix('docs/')}{anchor})"
        # The rest is in the repository, and on no page.
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    # What is indented is code.
    return "\n".join(
        line if line.startswith("    ") else _LINK.sub(link, line)
        for line in markdown.split("\n")
    )


def on_page_content(content, page, config, files):
    """Turns links of the notebook, which is no Markdown, into the site's."""
    if not page.file.src_uri.endswith(".ipynb"):
        return content
    return _MARKDOWN_ADDRESS.sub(r"\1.html", content)


def on_post_build(config):
    """Checks what the pages link to, however the links came there."""
    site = pathlib.Path(config.site_dir)
    pages = {path.name: path.read_text("utf-8") for path in site.glob("*.html")}
    pages.pop("404.html", None)  # Its addresses begin at the server's root.
    ids = {
        name: {html.unescape(x) for x in re.findall(r'\bid="([^"]+)"', text)}
        for name, text in pages.items()
    }
    for name, text in pages.items():
        for address in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", address):
                continue
            path, _, anchor = html.unescape(address).partition("#")
            path = urllib.parse.unquote(path.split("?")[0]) or name
            is_known = not anchor or path not in ids or anchor in ids[path]
            if not ((site / path).exists() and is_known):
                raise PluginError(f"{name}: a link to {address}: not there")
