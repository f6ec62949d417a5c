"""Why a request did not come back with a reply."""


class OutboundError(Exception):
    """The other side was not reached or did not answer properly."""

    def __init__(self, words: str, *, retryable: bool) -> None:
        super().__init__(words)
        self.retryable = retryable


class Refused(OutboundError):  # noqa: N818
    """The guard does not let this request out."""

    def __init__(self, words: str) -> None:
        super().__init__(words, retryable=False)
