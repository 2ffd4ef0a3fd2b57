"""The report is one page without a network, in step with the results, and works with whatever is there."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from metapcg.experiments.algorithms import ALGORITHMS
from metapcg.experiments.documents import Bullets, Heading, Paragraph, Table, to_html, to_markdown
from metapcg.experiments.report import write_report
from metapcg.experiments.runs import settings_for


@pytest.fixture(scope="module")
def reports(tmp_path_factory, made_up_results):
    """A folder of results with runs, notebook tables and figures, and its report."""
    folder = tmp_path_factory.mktemp("reports")
    shutil.copytree(made_up_results, folder / "runs" / "quick")
    (folder / "tables").mkdir()
    (folder / "tables" / "navigation.csv").write_text(
        "method,step,return,interval,published\nMAML,0,-40.1,4,-40.41\nMAML,2,-3.25,0.5,-3.33\noracle,0,-2.3,0.1,\n"
    )
    (folder / "tables" / "meta_gradient_error.csv").write_text("alpha,FOMAML,DiCE\n0.1,0.018,0.0000001\n")
    record = {
        "notebooks": [
            {"name": "0_policy_gradient", "status": "ok", "profile": "quick", "seconds": 40, "finished": "2025-01-01"},
            {
                "name": "1_maml", "status": "failed", "profile": "quick", "seconds": 3, "finished": "2025-01-02",
                "cell": "adapt", "error": "ValueError: <no>",
            },
        ]
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    write_report(folder)
    return folder


class Page(HTMLParser):
    """Collects what a page refers to, its text and its unbalanced tags."""

    void = {"meta", "img", "br"}

    def __init__(self, text: str):
        super().__init__()
        self.targets, self.ids, self.text, self.open = [], set(), "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.targets += [attrs[name] for name in ("src", "href") if name in attrs]
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag == "img":
            assert attrs["alt"]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_needs_no_network(reports):
    text = (reports / "report.html").read_text()
    page = Page(text)
    assert not page.open
    for target in page.targets:
        assert target.startswith(("data:image/png;base64,", "#", "notebooks/")), target[:80]
        if target.startswith("#"):
            assert target[1:] in page.ids
    assert not re.search(r"https?://|//cdn|@import|url\(", text)


def test_the_page_says_what_ran_what_it_gave_and_what_is_missing(reports):
    text = Page((reports / "report.html").read_text()).text
    count = len(list((reports / "runs" / "quick").iterdir()))
    assert f"Profile quick: {count} training and evaluation runs, 2 seeds" in text
    assert re.search(r"after one adaptation step on new tasks, MAML earns 6\.\d\d \[", text)
    assert re.search(r"after one own episode on new tasks, RL² earns \d+\.\d\d \[", text)
    assert "What it cost" in text and "episodes of a task" in text
    assert "Equals random." in text
    assert "random init on train, interpolation, extrapolation, held-out-representation, held-out-game" in text
    assert "no share, because the oracle is left out" in text
    assert "Notebook 1_maml failed in cell adapt: ValueError: <no>" in text
    assert "−3.25 ± 0.50" in text and "−3.33" in text and "0.018" in text, "the notebooks' tables are shown"
    assert "torch" in text and "direction-binary-narrow-maml-s0-" in text


def test_the_markdown_report_links_to_figures_that_are_there(reports):
    text = (reports / "report.md").read_text()
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(links) >= 6
    assert all((reports / link).is_file() for link in links)
    assert "| MAML |" in text


def test_the_tables_on_disk_have_no_times(reports):
    for name in ("splits", "adaptation", "gap", "runs"):
        header = (reports / "tables" / f"report-{name}.csv").read_text().splitlines()[0]
        assert "seconds" not in header and "method" in header


def test_the_same_results_give_the_same_bytes(tmp_path, functions, make_up_run):
    for algorithm in ("maml", "oracle", "random"):
        make_up_run(tmp_path / "one" / "runs", settings_for("smoke", algorithm, splits=("interpolation",)), functions)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for name in ("one", "two"):
        write_report(tmp_path / name)
    written = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert {"report.html", "report.md"} < {path.name for path in written}
    for path in written:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


def test_a_report_of_nothing_says_so(tmp_path):
    text = Page(write_report(tmp_path).read_text()).text
    assert "No complete runs" in text and "no runs yet" in text


def test_a_partial_result_says_what_is_missing(tmp_path, functions, make_up_run):
    settings = settings_for("smoke", "maml", splits=("interpolation",))
    make_up_run(tmp_path / "runs", settings, functions)
    text = Page(write_report(tmp_path).read_text()).text
    others = ", ".join(name for name in ALGORITHMS if name != "maml")
    assert f"no run of {others}" in text
    assert "nothing has learned" in text, "smoke results come with a warning"


def test_a_run_that_is_not_used_is_named_without_the_machines_folders(tmp_path):
    unfinished = tmp_path / "elsewhere" / "runs" / "smoke" / "one"
    unfinished.mkdir(parents=True)
    (unfinished / "settings.json").write_text("{")
    write_report(tmp_path / "reports", runs_dir=tmp_path / "elsewhere" / "runs")
    text = (tmp_path / "reports" / "report.md").read_text()
    assert "Not used: runs/smoke/one" in text and str(tmp_path) not in text


def test_figures_of_runs_that_are_gone_are_removed(tmp_path, functions, make_up_run):
    folder = make_up_run(tmp_path / "runs", settings_for("smoke", "maml", splits=("interpolation",)), functions)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.png").write_bytes(b"not the report's")
    write_report(tmp_path)
    assert list((tmp_path / "figures").glob("report-*.png"))
    shutil.rmtree(folder)
    (tmp_path / "figures" / "mine.png").unlink()
    write_report(tmp_path)
    assert not list((tmp_path / "figures").glob("report-*.png"))
    assert not list((tmp_path / "tables").glob("report-*.csv"))


def test_a_changed_setting_is_a_variation_and_not_the_main_result(tmp_path, functions, make_up_run):
    for algorithm in ("maml", "oracle", "random"):
        make_up_run(tmp_path / "runs", settings_for("smoke", algorithm, splits=("interpolation",)), functions)
    make_up_run(tmp_path / "runs", settings_for("smoke", "maml", inner_lr=0.5, splits=("interpolation",)), functions)
    text = (tmp_path / "report.md").read_text() if write_report(tmp_path) else ""
    assert text.count("| MAML | inner_lr=0.5 |") == 1
    assert "| MAML | as in the tables above |" in text


def test_both_families_are_shown_side_by_side_where_both_were_run(tmp_path, functions, make_up_run):
    for family in ("direction", "weights"):
        for algorithm in ("maml", "oracle", "random"):
            settings = settings_for("smoke", algorithm, family=family, splits=("interpolation",))
            make_up_run(tmp_path / "runs", settings, functions)
        write_report(tmp_path)
        there = (tmp_path / "figures" / "report-families-binary-narrow.png").is_file()
        assert there == (family == "weights")
    assert "| MAML | " in (tmp_path / "report.md").read_text().split("Where adapting pays")[1]


def test_text_is_escaped_and_marked_alike_in_both_outputs(tmp_path):
    blocks = [Heading(1, "A < B"), Paragraph("**bold** & `code`"), Bullets(["x"]), Table(["a|b"], [["1 < 2"]])]
    page = to_html("T", blocks)
    assert "A &lt; B" in page and "<strong>bold</strong> &amp; <code>code</code>" in page and "1 &lt; 2" in page
    assert "| a\\|b |" in to_markdown(blocks, tmp_path)
