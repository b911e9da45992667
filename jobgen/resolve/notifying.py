"""What is sent when the job starts and ends: options of Slurm for mail, else by the job itself."""

from __future__ import annotations

from jobgen.model.decision import SelfEvident, Setting
from jobgen.model.notify import EVENTS, SECRET
from jobgen.model.part_plans import NotifyPlan
from jobgen.model.plan import Part
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized

FILE = "notify.sh"


def plan_notify(look: Inputs, sized: Sized) -> tuple[NotifyPlan | None, Part]:
    """What the job itself sends, with the script for it; None if it sends nothing."""
    asked = look.job.notify
    if asked is None:
        return None, Part("notify")
    ways = [name for name in ("mail", "webhook", "command") if getattr(asked, name)]
    place = look.cite_job("notify")
    unsent = "; no mail: there is no Slurm on this machine" if look.local and asked.mail else ""
    sized.decide("notify", ", ".join(ways), f"on {', '.join(asked.on)}{unsent}", place)
    if not asked.webhook and not asked.command:
        return None, Part("notify")
    from jobgen import payload
    from jobgen.model.bundle import BundleFile

    url, secret = asked.webhook or "", ""
    if named := SECRET.fullmatch(url):
        url, secret = "", named[1]
    plan = NotifyPlan(
        on=asked.on,
        url=url,
        secret=secret,
        command=asked.command,
        place=place,
    )
    return plan, Part("notify", files=(BundleFile(FILE, payload.text(FILE).encode()),))


def build_mail_options(look: Inputs) -> dict[str, Setting]:
    """``--mail-user`` and ``--mail-type``, if the job asks for mail."""
    asked = look.job.notify
    if asked is None or not asked.mail:
        return {}
    types = ",".join(EVENTS[event] for event in EVENTS if event in asked.on)
    why = f"mail from Slurm on {', '.join(asked.on)}"
    return {
        "mail-user": Setting(asked.mail, SelfEvident.AS_ASKED, look.cite_job("notify", "mail")),
        "mail-type": Setting(types, why, look.cite_job("notify", "on")),
    }
