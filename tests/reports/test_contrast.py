"""Colours of pages and figures: text and lines can be read on their ground, light and dark."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from popbandits.reports import html
from popbandits.reports.figures import theme
from tests.reports.seen import LINE, TEXT, contrast, rgb

STYLE = (Path(html.__file__).parent / "page" / "style.css").read_text("utf-8")
THEMES = {
    dark: dict(re.findall(r"--(\w+): (#\w{6})", block))
    for dark, block in zip((False, True), re.findall(r"^:root.*?^}", STYLE, re.DOTALL | re.MULTILINE), strict=True)
}
# How people without one kind of cone see linear colours (Machado, Oliveira and Fernandes, 2009).
SIGHTS = (
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
)


def lab(code: str, sight: object) -> np.ndarray:
    """Return a colour in CIELAB, in which distances are about what one sees."""
    parts = np.array(rgb(code))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ (np.array(sight) @ linear).clip(0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("dark", THEMES)
def test_texts_of_a_page_have_contrast_with_both_grounds(dark: bool) -> None:
    colours = {name: rgb(code) for name, code in THEMES[dark].items()}
    for text, ground in itertools.product(("ink", "soft", "accent", "bad"), ("ground", "raised")):
        assert contrast(colours[text], colours[ground]) >= TEXT, (text, ground)
    assert contrast(colours["edge"], colours["ground"]) >= LINE


@pytest.mark.parametrize("dark", THEMES)
def test_texts_and_lines_of_figures_have_contrast(dark: bool) -> None:
    config = theme.config(dark)
    ground = rgb(config["background"])
    assert config["background"] == THEMES[dark]["ground"]
    texts = [config["title"]["color"], config["title"]["subtitleColor"], config["text"]["color"]]
    texts += [config[part][name] for part in ("axis", "legend", "header") for name in ("labelColor", "titleColor")]
    assert min(contrast(rgb(code), ground) for code in texts) >= TEXT
    for code in (*theme.PALETTE, config["rule"]["color"]):
        assert contrast(rgb(code), ground) >= LINE, code


def test_colour_blind_readers_can_tell_the_palette_apart() -> None:
    assert len(set(theme.PALETTE)) == 8
    for one, other in itertools.combinations(theme.PALETTE, 2):
        for sight in SIGHTS:
            assert np.linalg.norm(lab(one, sight) - lab(other, sight)) > 12, (one, other)
