"""What is raised."""


class Error(Exception):
    """It could not be done; the message says what, why, and what to do."""


class Lost(Error):
    """The companion has ended: what it had seen is gone, and the next call starts another one."""
