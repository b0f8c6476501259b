"""A user model whose key is a UUID and whose login is an email address."""
