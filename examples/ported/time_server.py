"""Tells the time in any time zone, and what a time of one zone is in another.

    mcpkit run examples/ported/time_server.py
    mcpkit run examples/ported/time_server.py:make_app -- --local-timezone Europe/Oslo

Without a flag, LOCAL_TIMEZONE or TZ names the zone of the user, or else the system's settings do.
"""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from mcpkit import MCPKit


class Moment(TypedDict):
    """A time in one zone; the offset from UTC is part of it."""

    timezone: str
    datetime: str
    day_of_week: str
    is_dst: bool


class Conversion(TypedDict):
    """The same instant in two zones, and how much later the clocks of the second one are."""

    source: Moment
    target: Moment
    time_difference: str


def known(name: str) -> str:
    """Reject unknown time zones, so the model reads which argument is wrong."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not an IANA time zone, such as Europe/Oslo or UTC") from None
    return name


Zone = Annotated[str, AfterValidator(known), Field(description="An IANA time zone.")]


def system_zone() -> str:
    """The zone that the system is set to; UTC where that has no name."""
    named = os.environ.get("LOCAL_TIMEZONE") or os.environ.get("TZ", "").lstrip(":")
    _, _, linked = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")
    for name in (named, linked):
        try:
            return known(name) if name else "UTC"
        except ValueError:
            continue
    return "UTC"


def described(when: datetime) -> Moment:
    """Describe a time as the clocks of its zone show it."""
    return Moment(
        timezone=str(when.tzinfo),
        datetime=when.isoformat(timespec="seconds"),
        day_of_week=f"{when:%A}",
        is_dst=bool(when.dst()),
    )


def hours_between(source: datetime, target: datetime) -> str:
    """Say how much later the second clock is, such as +2.0h, -9.5h or +5.75h."""
    nothing = timedelta()
    difference = (target.utcoffset() or nothing) - (source.utcoffset() or nothing)
    hours = difference / timedelta(hours=1)
    return f"{hours:+.1f}h" if (hours * 10).is_integer() else f"{hours:+.2f}h"


def make_app(local_timezone: str = system_zone()) -> MCPKit:
    """Make the server for users who live in a zone."""
    known(local_timezone)
    app = MCPKit("mcp-time", version="1.0", instructions=f"The user is in {local_timezone}.")

    @app.tool(read_only=True, open_world=False)
    def get_current_time(timezone: Zone = local_timezone) -> Moment:
        """Tell what time it is now in a time zone."""
        return described(datetime.now(ZoneInfo(timezone)))

    @app.tool(read_only=True, open_world=False)
    def convert_time(
        *,
        source_timezone: Zone = local_timezone,
        time: Annotated[str, Field(pattern=r"^([01]?\d|2[0-3]):[0-5]\d$")],
        target_timezone: Zone = local_timezone,
    ) -> Conversion:
        """Tell what a time of today in one time zone is in another.

        Args:
            time: On the 24-hour clock of the source zone, such as 16:30.
        """
        hour, minute = map(int, time.split(":"))
        today = datetime.now(ZoneInfo(source_timezone))
        source = today.replace(hour=hour, minute=minute, second=0, fold=0)
        target = source.astimezone(ZoneInfo(target_timezone))
        return Conversion(
            source=described(source),
            target=described(target),
            time_difference=hours_between(source, target),
        )

    return app


app = make_app()

if __name__ == "__main__":
    app.run()
