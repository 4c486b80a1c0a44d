"""Tools for dates and times in one time zone."""

from datetime import date, datetime, timedelta, tzinfo
from typing import Annotated

from pydantic import Field

from mcpkit import prompt, tool


class Clock:
    """Time tools.

    Args:
        zone: The time zone of everything that is said and understood.
    """

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone

    @tool(read_only=True)
    def now(self) -> datetime:
        """Tell date and time."""
        return datetime.now(self.zone).replace(microsecond=0)

    @tool(read_only=True)
    def at(self, moment: datetime) -> datetime:
        """Tell what a moment is in this time zone.

        Args:
            moment: With its own zone, such as 2026-03-01T12:00:00Z; without one, it is read as
                being in this time zone already.
        """
        here = moment.replace(tzinfo=self.zone) if moment.tzinfo is None else moment
        return here.astimezone(self.zone)

    @tool(read_only=True)
    def workdays(self, start: date, count: Annotated[int, Field(ge=1, le=1000)]) -> list[date]:
        """List the days from Monday to Friday that follow a date.

        Args:
            start: The day before the first one that may be listed.
            count: How many.
        """
        days: list[date] = []
        while len(days) < count:
            start += timedelta(days=1)
            if start.weekday() < 5:
                days.append(start)
        return days

    @prompt
    def appointment(self, person: str) -> str:
        """Help with finding a time to meet.

        Args:
            person: Whom to meet.
        """
        return f"Find a time to meet {person} in the next five work days."
