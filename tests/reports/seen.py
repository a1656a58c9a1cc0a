"""Contrast, as the Web Content Accessibility Guidelines measure it, and what the keyboard reaches."""

from typing import Any

from playwright.sync_api import Page

TEXT, LINE = 4.5, 3.0
"""Least contrast of text with its ground, and of lines and controls (success criteria 1.4.3 and 1.4.11)."""

Colour = tuple[float, float, float]


def rgb(code: str) -> Colour:
    """Read a colour such as #0072b2; parts from 0 to 1."""
    red, green, blue = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Return the relative luminance."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


# Each pair of colours of a text and the ground that it is on, with opacities; the edges of what can be filled in too.
PAIRS = """() => {
    const parse = (text) => {
        const [red, green, blue, opacity = 1] = text.match(/[\\\\d.]+/g).map(Number);
        return { rgb: [red / 255, green / 255, blue / 255], opacity };
    };
    const over = (top, below, opacity) => top.map((part, i) => part * opacity + below[i] * (1 - opacity));
    const ground = (one) => {
        if (!one) return [1, 1, 1];
        const { rgb, opacity } = parse(getComputedStyle(one).backgroundColor);
        return opacity === 1 ? rgb : over(rgb, ground(one.parentElement), opacity);
    };
    const faded = (one) => (one ? Number(getComputedStyle(one).opacity) * faded(one.parentElement) : 1);
    const found = [];
    const add = (kind, one, text, on) => {
        const { rgb, opacity } = parse(text);
        const below = ground(on);
        found.push([kind, `${one.tagName} ${one.className} ${one.id}`, over(rgb, below, opacity * faded(one)), below]);
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const one = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !one.checkVisibility()) continue;
        if (one.closest('script, style, .heard, .skip, :disabled')) continue; // What cannot be used is exempt.
        add('text', one, getComputedStyle(one).color, one);
    }
    for (const one of document.querySelectorAll('input:not([type=checkbox]):not([type=range]), select')) {
        if (one.checkVisibility()) add('line', one, getComputedStyle(one).borderTopColor, one.parentElement);
    }
    const menus = document.querySelectorAll('.vega-embed summary svg');
    for (const one of menus) add('line', one, getComputedStyle(one).color, one);
    return found;
}""".replace("\\\\", "\\")


def faint(page: Page) -> set[str]:
    """List what has too little contrast on a page."""
    pairs: list[tuple[str, str, Any, Any]] = page.evaluate(PAIRS)
    assert {kind for kind, *_ in pairs} == {"text", "line"}
    least = {"text": TEXT, "line": LINE}
    found = {(kind, what, round(contrast(ink, ground), 2)) for kind, what, ink, ground in pairs}
    return {f"{kind} of {what}: {value}" for kind, what, value in found if value < least[kind]}


# Everything that can be clicked gets a number; what looks as if it could be, but cannot have the focus, gets none.
NUMBER = """() => {
    const can = 'a[href], button, input, select, textarea, summary, [tabindex]';
    const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(':disabled');
    const all = [...document.querySelectorAll(can)].filter((one) => shown(one) && one.tabIndex >= 0);
    all.forEach((one, i) => { one.dataset.number = i; });
    const clickable = [...document.querySelectorAll('body *')].filter((one) => shown(one)
        && (getComputedStyle(one).cursor === 'pointer' || one.onclick) && !one.closest(`${can}, label, canvas`));
    const name = (one) => `${one.tagName} ${one.id || one.className}: ${one.textContent.trim().slice(0, 40)}`;
    return [all.map(name), clickable.map(name)];
}"""
# The number of what has the focus, and whether that shows: an outline with enough contrast, or another position.
FOCUS = """() => {
    const one = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const inside = box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight;
    const seen = inside && outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1;
    return [one === document.body ? null : one.dataset.number ?? '', seen];
}"""


def unreachable(page: Page) -> list[str]:
    """List what can be clicked on a page and that Tab does not reach, or reaches without showing it."""
    names, faults = page.evaluate(NUMBER)
    assert len(names) > 5
    left = set(range(len(names)))
    for _ in range(3 * len(names)):
        page.keyboard.press("Tab")
        number, seen = page.evaluate(FOCUS)
        if number and int(number) in left:  # No number at the end of the page, after which its beginning follows.
            left.remove(int(number))
            faults += [] if seen else [f"no focus is seen: {names[int(number)]}"]
        if not left:
            break
    return [*faults, *(f"not reached: {names[number]}" for number in sorted(left))]
