"""Tests of command_line/page.py and charts.py."""

from electra_tf.command_line import charts, page


def test_svg_takes_the_colours_of_the_page():
    svg = charts.adapt_svg(
        '<?xml version="1.0"?>\n<svg width="9pt" height="5pt" '
        'viewBox="0 0 9 5"><path id="p" style="fill: #010101"/>'
        '<use xlink:href="#p" clip-path="url(#q)"/></svg>',
        "loss",
        'from "1" to 2',
    )
    assert svg == (
        '<svg role="img" aria-label="from &quot;1&quot; to 2" '
        'viewBox="0 0 9 5"><path id="loss-p" style="fill: var(--ink)"/>'
        '<use xlink:href="#loss-p" clip-path="url(#loss-q)"/></svg>'
    )


def test_command_of():
    assert page.command_of(
        ["/x/electra_tf/run_pretraining.py", "--a=1", "--b='c d'", "--c=e f"]
    ) == (
        "electra-tf pretrain \\\n"
        "    --a=1 \\\n"
        "    '--b='\"'\"'c d'\"'\"'' \\\n"
        "    '--c=e f'"
    )


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
