"""The figures of a report, each defined once: for the page, for notebooks and for print."""
