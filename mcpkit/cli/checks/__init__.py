"""What hosts and models stumble over: one small function for each rule, all in one table (`table`).

A rule looks at a `Served`, which is what a client has been told, and says what it found. Nothing
here talks to a server, except `gather`.
"""
