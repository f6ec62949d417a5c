"""Errors of outbound requests that got no reply."""


class OutboundError(Exception):
    """The other host was not reached, or did not answer properly."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class Refused(OutboundError):  # noqa: N818  (reads like the rule that it reports)
    """The request is not allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)
