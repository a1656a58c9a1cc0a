"""A real browser for the tests of pages."""

import os
import shutil

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)
PATIENCE = 120_000
"""Milliseconds that a page may take on a machine with much to do."""

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Chromium has a word to say against a canvas that is read more than once, so that copies are read.
COPY = """const copy = document.createElement('canvas');
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);"""
# How many different colours a canvas shows; a blank one shows one.
COLOURS = f"""canvas => {{
    {COPY}
    return new Set(new Uint32Array(context.getImageData(0, 0, copy.width, copy.height).data.buffer)).size;
}}"""
# The colour at the upper left, which is that of the ground: red, green, blue and opacity.
CORNER = f"""canvas => {{
    {COPY}
    return [...context.getImageData(2, 2, 1, 1).data];
}}"""
