"""Answers are read however much stands before them."""

from __future__ import annotations

from pathlib import Path

from tests.messages import request
from tests.transports.http.plain import RUN
from tests.transports.processes import started

SERVER = """
from mcpkit import Context, MCPKit

app = MCPKit("pressed", max_in_flight=1)


@app.tool
async def ask(ctx: Context) -> bool:
    return (await ctx.elicit("Go on?")).accepted
"""


def test_an_answer_behind_two_thousand_requests_is_read(tmp_path: Path) -> None:
    """SEC-17 and S2C-4: reading pauses under load, but not before what handlers wait for."""
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    with started([*RUN, str(server)]) as process:
        process.shake_hands(elicitation={})
        unanswered = set(range(2000))
        process.send(*(request(each, "tools/call", name="ask") for each in unanswered))
        while unanswered:
            message = process.receive()
            if "method" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept"}}
                process.send(answer)
            else:
                assert message["result"]["structuredContent"] == {"result": True}
                unanswered.remove(message["id"])
        process.close_stdin()
        assert process.exit_code() == 0
