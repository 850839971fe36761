"""A browser, and reports that are opened in it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from reports import reported
from study_files import completed, plan, sample_study

HOSTILE = "</script><script>document.title='harmed'</script>&\x07\u202e'\"<!--"
"""An experiment that a folder may well be called, but for the slash, which no name can have."""


@dataclass
class Watched:
    """An opened page, what its console said, and what it asked for."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; its sandbox does not work for root, nor in most containers."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "the browser's tests need Chromium; .ci/run installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Opens a file; a script may run `before`; `options` are a Playwright context's, as `viewport`."""
    contexts = []

    def open_page(path: Path, before: str = "", **options: object) -> Watched:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        context.add_init_script(before)
        watched = Watched(context.new_page())
        watched.page.on("console", lambda message: watched.console.append(message.text))
        watched.page.on("pageerror", lambda error: watched.console.append(str(error)))
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.goto(path.as_uri())
        return watched

    yield open_page
    for context in contexts:
        context.close()


def report_of(results: Path) -> Path:
    return reported(results).html


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual study: eight charts, thirteen runs."""
    results = tmp_path_factory.mktemp("browser") / "local"
    sample_study(results)
    return report_of(results)


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight sizes in two widths, whose experiment, host and log have names that would be markup."""
    results = tmp_path_factory.mktemp("hostile") / "<b>site"
    # No name that holds what cannot be printed is read.
    name = "".join(each for each in HOSTILE if each.isprintable() and each != "/")
    for nodes in (1, 2, 4, 8):
        for ranks_per_node in (1, 2):
            completed(results, experiment=name, nodes=nodes, ranks_per_node=ranks_per_node)
    failed = plan(results, name, 2, 1, 2)
    cause = {"node": 0, "rank": 0, "cause": HOSTILE, "at": 1.0}
    failed.execute(state="failed", failure=cause)
    for log in (failed.path / "logs").rglob("*.log"):
        log.write_text(f"{HOSTILE}\n\x1b[31mred\x00\n")
    return report_of(results)
