"""Entries that are not known beforehand: files and folders."""
