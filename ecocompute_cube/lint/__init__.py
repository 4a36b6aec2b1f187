"""``ecocompute lint``: what was measured to waste energy, found in other people's code.

::

    paths ─▶ sources (walk, byte prefilter) ─▶ one reader a kind ─▶ facts ─▶ rules ─▶ findings
             Python, notebooks ........ python, notebook (by way of names)
             YAML, JSON ............... tree, configs
             shell, Dockerfiles ....... flags
    findings ─▶ suppressed, baseline, changed lines ─▶ formats

A fact is what a file says for certain. What cannot be known from the file is no fact.
"""
