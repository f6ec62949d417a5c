"""What may follow an option on the command line?"""

import re
from argparse import ArgumentTypeError


def port(text: str) -> int:
    """Read the number of a port to listen on."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 2**16:
        raise ArgumentTypeError(f"{text[:20]} is no port: choose 1 to 65535.")
    return int(text)
