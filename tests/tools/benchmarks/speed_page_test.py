"""Tests of tools/benchmarks/speed_page.py."""

import json

import pytest
import speed_page

COMPARED = {
    "contestants": {
        name: {
            "examples_per_second": rate,
            "examples_per_second_quartiles": [rate, rate],
            "cpu_seconds_per_step": 1 / rate,
        }
        for name, rate in (("other", 10.0), ("ours", 25.0))
    },
    "ours_times_other": 2.5,
    "ours_times_other_quartiles": [2.25, 2.75],
    "ours_times_other_cpu": 2.5,
}


@pytest.fixture
def folder(tmp_path):
    results: dict[str, dict] = {}
    for file, section in speed_page.COMPARISONS.values():
        results.setdefault(file, {"warnings": [file]})[section] = COMPARED
    for file, result in results.items():
        (tmp_path / f"{file}.json").write_text(json.dumps(result))
    return tmp_path


def test_keeps_all_comparisons(folder):
    figures = speed_page.read(folder)
    assert figures["warnings"]["serving"] == ["serving"]
    tables = speed_page.blocks(figures)
    assert len(tables) == len(speed_page.COMPARISONS)
    lines = tables["finetuning-sst"].splitlines()
    assert lines[2].startswith("| other | 10.0 | 10.0 to 10.0 | 0.1 |")
    assert "2.50 | 2.25 to 2.75 | 2.50" in lines[2]


@pytest.mark.parametrize(
    "content", ['{"warnings": []}', '{"runtimes": {}, "latency": {}}', "[]", ""]
)
def test_a_missing_section_is_an_error(folder, content):
    (folder / "serving.json").write_text(content)
    with pytest.raises(ValueError, match="section runtimes .* .*serving.json"):
        speed_page.read(folder)
