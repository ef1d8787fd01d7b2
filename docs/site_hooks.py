"""What mkdocs.yml cannot say of the site: it has the README, and `<int32>`."""

import pathlib
import posixpath
import re

import markdown
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

_ROOT = pathlib.Path(__file__).resolve().parent.parent
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
