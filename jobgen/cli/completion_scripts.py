"""The script that a shell evaluates to complete words: click's, mended for zsh and fish."""

from __future__ import annotations

import click

_ZSH_SETUP = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"
"""A .zshrc may come here before compinit has run."""
# click's own splits a line at every comma, and so cuts a description at its first one
_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \
COMP_CWORD=(commandline -t) %(prog_name)s)
    for completion in $response
        set -l parts (string split --max 1 "," -- $completion)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


def write_script(program: click.Command, shell: str) -> str:
    """The script for bash, zsh or fish."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  the caller offers these three shells only
    script = kind(program, {}, "jobgen", "_JOBGEN_COMPLETE")
    template = _FISH if shell == "fish" else script.source_template
    if shell == "zsh":
        first, newline, rest = template.partition("\n")
        template = f"{first}{newline}{_ZSH_SETUP}{rest}"
    return template % script.source_vars()
