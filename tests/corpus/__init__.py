"""Public job scripts as job files: what each asks for, and what jobgen renders for it.

``facts.json`` holds facts of the public scripts: options, variables, launcher, arguments, steps.
The scripts themselves are not here; each job file names the source of its facts.

    python -m tests.corpus              # one line a script
    python -m tests.corpus 045          # every fact of one script
    python -m tests.corpus --write      # docs/explanation/corpus.md
"""
