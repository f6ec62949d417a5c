"""Channels: how people are reached, by ntfy, e-mail, chat services and other push services."""
