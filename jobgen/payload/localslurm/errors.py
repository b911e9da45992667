"""A refusal in Slurm's words."""

from __future__ import annotations

SUBMISSION = "sbatch: error: Batch job submission failed: "


class CommandError(Exception):
    """Lines for standard error, and the exit code."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__(*lines)
        self.lines = lines
        self.code = code


def usage(program: str, text: str) -> CommandError:
    """A wrong option; sbatch and srun end with 255 then, the others with 1."""
    hint = f'Try "{program} --help" for more information'
    return CommandError(
        f"{program}: {text}", hint, code=255 if program in ("sbatch", "srun") else 1
    )


def invalid(program: str, text: str) -> CommandError:
    """A value that cannot be read."""
    return CommandError(f"{program}: error: {text}", code=255)


def submission(reason: str) -> CommandError:
    """The controller's refusal of a job."""
    return CommandError(f"{SUBMISSION}{reason}")
