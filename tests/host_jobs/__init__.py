"""A host's own app whose label is "jobs", with a model Job that belongs to a user."""
