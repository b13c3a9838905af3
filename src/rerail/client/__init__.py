"""The client: everything that an engineer or a program asks of rerail, through Temporal alone."""

from rerail.client.connection import DATA_CONVERTER, connect

__all__ = ["DATA_CONVERTER", "connect"]
