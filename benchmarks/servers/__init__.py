"""The programs under measurement, one file each; every file runs on its own in a subprocess."""
