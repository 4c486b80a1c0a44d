"""Servers that are replaced while their clients stay, and several processes of one server."""
