"""A server that is put together from toolkits, each under a prefix of its own.

Shows classes with marked methods, configured by their constructors: what a team writes once and
includes in many servers.

    mcpkit run examples/toolkits/server.py
"""

from datetime import timedelta, timezone

from mcpkit import MCPKit

from .clock import Clock
from .text import Text
from .units import Units

app = MCPKit(
    "toolkits",
    version="1.0",
    instructions="Use these instead of calculating or counting by yourself.",
)

app.include(Text(max_length=10_000), prefix="text")
app.include(Units(digits=6), prefix="units")
app.include(Clock(timezone(timedelta(hours=5, minutes=45), "Asia/Kathmandu")), prefix="clock")

if __name__ == "__main__":
    app.run()
