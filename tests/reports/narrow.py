"""What a narrow window does to a page: all that is cut, reaches outside or is broken, as a browser sees it."""

from typing import Any

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as TookTooLong

from tests.reports.browser import PATIENCE

NARROW = {"width": 420, "height": 900}

FAULTS = """() => {
    const faults = [];
    const name = (one) => `${one.tagName} ${one.id || one.className}: ${one.textContent.slice(0, 60)}`;
    const page = document.documentElement;
    if (page.scrollWidth > innerWidth) faults.push(`the page is ${page.scrollWidth} pixels wide`);
    for (const chart of document.querySelectorAll('.chart')) {
        const over = chart.scrollWidth - chart.clientWidth;
        if (over > 0) faults.push(`the figure ${chart.dataset.figure} is cut by ${over} pixels`);
    }
    // What scrolls by itself may be wider; captions of tables stay in view.
    for (const one of document.querySelectorAll('body *')) {
        if (one.closest('.skip, .heard, .chart, script, style')) continue;
        if (one.parentElement.closest('.scroll, pre') && !one.matches('caption span')) continue;
        const { left, right, width } = one.getBoundingClientRect();
        if (width && (left < 0 || right > innerWidth)) faults.push(`outside: ${name(one)}`);
        const hides = getComputedStyle(one).overflowX !== 'visible' && !one.matches('.scroll, pre, select, input');
        if (hides && one.scrollWidth > one.clientWidth + 1) faults.push(`cut: ${name(one)}`);
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (texts.nextNode()) {
        const node = texts.currentNode;
        if (node.parentElement.closest('.chart, script, style, pre, .heard, .skip')) continue;
        // A line may end after a hyphen or a dash, as in the name of a folder or a range.
        for (const { 0: word, index } of node.data.matchAll(/[^\\\\s–-]+[–-]?/g)) {
            range.setStart(node, index);
            range.setEnd(node, index + word.length);
            const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
            if (lines.size > 1) faults.push(`broken: ${word}`);
        }
    }
    return faults;
}""".replace("\\\\", "\\")


SETTLED = f"!document.querySelector('.chart[aria-busy]') && ({FAULTS})().length === 0"
"""True once all figures are drawn and nothing is wrong. Both are asked at once: news may redraw figures at any time."""


def faults(page: Page) -> Any:
    """Everything that is wrong with a page in a narrow window and stays so after its figures were drawn again."""
    try:
        page.wait_for_function(SETTLED, timeout=PATIENCE)
    except TookTooLong:
        return page.evaluate(FAULTS)
    return []
