"""A loopback server without tokens for the conformance suite, which cannot send any: `… PORT`."""

import os
import sys

import django
import uvicorn


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
    django.setup()
    from django.contrib.auth.models import User  # noqa: PLC0415

    from schedules.mcp.auth import local_caller, set_local_caller  # noqa: PLC0415
    from schedules.mcp.http import serve_over_http  # noqa: PLC0415
    from schedules.mcp.server import build_server  # noqa: PLC0415

    set_local_caller(local_caller(User.objects.get(username="olga")))
    app = serve_over_http(build_server())
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", log_config=None, timeout_graceful_shutdown=1
    )


if __name__ == "__main__":
    main()
