"""An authorization server beside the endpoint, for those who have none."""
