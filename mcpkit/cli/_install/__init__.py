"""The configurations of hosts: their files, their formats, and changes to them."""
