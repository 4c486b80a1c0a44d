"""Toolkits that several servers can share: each is a class with marked methods."""
