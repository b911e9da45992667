"""What a submit would do, before anything is sent."""

from __future__ import annotations

from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.record import Login, Site
from jobgen.submission.dry_run import rehearse
from jobgen.submission.exchange import TOKEN, make_record
from tests.resolve.made import job, plan

SITE = Site("big", "slurm", Login("paramiko", "login.big"), "/scratch/jobgen")
BUNDLE = Bundle((BundleFile("job.sbatch", b"#!/bin/bash\n", 0o755),))


def test_a_rehearsal_names_secrets_and_never_their_values() -> None:
    made = plan(job(secrets="{HF_TOKEN: {env: HF_TOKEN}}"))
    record = make_record(made, BUNDLE.digest, SITE)
    dry = rehearse(record, made, BUNDLE, uploads=2)
    assert [step.title for step in dry.steps] == ["connect", "upload", "secrets", "submit"]
    assert f"demo-{TOKEN[:8]}/secrets.env, mode 0600" in dry.steps[2].command
    assert dry.steps[1].command.startswith("tar of src/ (2 files), 1 rendered file and 5 for")


def test_a_root_with_a_blank_is_entered_as_it_is_pasted() -> None:
    made = plan(job())
    record = make_record(made, BUNDLE.digest, SITE._replace(root="/scratch/$USER/my jobs"))
    line = rehearse(record, made, BUNDLE, uploads=0).steps[-1].command
    folder = f"/scratch/${{USER}}/my jobs/demo-{TOKEN[:8]}"
    assert line.startswith(f'cd "{folder}" && sbatch ')
    assert f'"--chdir={folder}"' in line
