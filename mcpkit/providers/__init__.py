"""Resources that come and go by themselves."""
