"""Charts as Vega-Lite specifications (plain dicts): one module a chart, each with its table."""
