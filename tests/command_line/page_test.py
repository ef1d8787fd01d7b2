"""Tests of command_line/page.py and charts.py."""

import html
import re

from electra_tf.command_line import charts, page
from tests import pages


def test_svg_takes_the_colours_of_the_page():
    figure, axes = charts.new_figure(2, 1)
    axes.plot([1, 2], color=charts.ACCENT)
    found = charts.to_html(figure, "loss", "Loss", ['from "1" to 2'])
    label = 'aria-label="Loss: from &quot;1&quot; to 2"'
    assert f'<svg role="img" {label} ' in found
    assert "var(--accent)" in found and charts.ACCENT not in found
    assert all(x.startswith("loss-") for x in re.findall(r'id="(.*?)"', found))


def test_the_command_of_a_run():
    argv = ["/x/electra_tf/run_pretraining.py", "--a=1", "--b='c d'"]
    found = page.run(pages.RUN | {"argv": argv})
    quoted = html.escape("electra-tf pretrain \\\n    --a=1 \\\n    ")
    assert quoted + html.escape("'--b='\"'\"'c d'\"'\"''") in found


def test_what_a_page_says_is_no_part_of_its_frame():
    found = page.render("<{body}>", [page.Html("<p>{style}</p>"), ""])
    assert "<title>&lt;{body}&gt;</title>" in found
    assert "<main>\n<p>{style}</p>\n</main>" in found


def test_all_but_html_is_escaped():
    parts = ["<a>", page.Html("<b>"), "", 1.25]
    assert page.fill("{:.1f}|{x}", 0.25, x=parts[:2]) == "0.2|&lt;a&gt;\n<b>"
    found = page.table("k", "cntb", "ABCD", [("<x>", "1", "&", 0.5)])
    assert "<code>&lt;x&gt;</code></th><td" in found
    assert '<td class="number">1</td><td>&amp;</td>' in found
    assert '<i style="width:50.0%"></i>' in found


def test_points_of_training_are_those_of_the_log():
    log = [{"step": 5, "split": "train", "loss": 2.0}]
    log.append({"step": 5, "split": "heldout", "loss": 9.0})
    assert charts.points(log, "train", "loss") == [(5, 2.0)]
    assert charts.points(log, "train", "other") == []
