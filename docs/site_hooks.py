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
# Pages of the site that are outside of docs/.
_OUTSIDE = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
_PAGES = {source: page for page, source in _OUTSIDE.items()}
_MARKDOWN_ADDRESS = re.compile(r'(href="[\w./-]+)\.(?:md|ipynb)(?=["#])')
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r" *(```|~~~)")


class _NoHtml(markdown.Extension):
    """Text has no HTML: "<int32>[B, L]" is a shape."""

    def extendMarkdown(self, md):
        md.inlinePatterns.deregister("html")


def on_config(config):
    """Adds `_NoHtml` for all pages, docstrings included."""
    config.markdown_extensions.append(_NoHtml())
    return config


def on_files(files, config):
    """Adds the pages that are outside of docs/."""
    for page, source in _OUTSIDE.items():
        text = (_ROOT / source).read_text("utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links of the repository into those of the site."""
    uri = page.file.src_uri
    name = _OUTSIDE.get(uri, f"docs/{uri}")

    def link(match):
        text, path, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if not (_ROOT / path).exists():
            raise PluginError(f"{name}: a link to {path}, which is not there")
        if path in _PAGES or path.startswith("docs/"):
            target = _PAGES.get(path, path.removeprefix("docs/"))
            address = posixpath.relpath(target, posixpath.dirname(uri) or ".")
            return f"[{text}]({address}{anchor})"
        # The rest is in the repository, and on no page.
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    lines, is_code = [], False
    for line in markdown.split("\n"):
        is_fence = bool(_FENCE.match(line))
        is_code ^= is_fence
        as_it_is = is_code or is_fence or line.startswith("    ")
        lines.append(line if as_it_is else _LINK.sub(link, line))
    return "\n".join(lines)


def on_page_content(content, page, config, files):
    """Turns links of the notebook, which is no Markdown, into the site's."""
    if not page.file.src_uri.endswith(".ipynb"):
        return content
    return _MARKDOWN_ADDRESS.sub(r"\1.html", content)


def on_post_build(config):
    """Checks what the pages link to, however the links came there."""
    site = pathlib.Path(config.site_dir)
    pages = {
        path.relative_to(site).as_posix(): path.read_text("utf-8")
        for path in site.rglob("*.html")
    }
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
            path = urllib.parse.unquote(path.split("?")[0])
            folder = posixpath.dirname(name)
            path = posixpath.normpath(posixpath.join(folder, path))
            path = name if address.startswith(("#", "?")) else path
            is_known = not anchor or path not in ids or anchor in ids[path]
            if not ((site / path).exists() and is_known):
                raise PluginError(f"{name}: a link to {address}: not there")
