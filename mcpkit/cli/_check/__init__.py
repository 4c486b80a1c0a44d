"""The rules of ``mcpkit check``: one small function each, all in one table (`table`).

A rule looks at a `Served`, the lists that a client was sent, and yields what it found. Nothing here
talks to a server, except `gather`.
"""
