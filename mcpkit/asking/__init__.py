"""What a handler may ask of its client, and the ways to get the answer."""
