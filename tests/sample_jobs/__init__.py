"""Handlers that the processes of the tests run."""
