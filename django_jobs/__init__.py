"""Durable background jobs for Django: every job reaches a terminal state with a proper reason."""

__version__ = "0.1.0"
