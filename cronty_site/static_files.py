"""The middleware that serves static files."""

from contextlib import closing
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise with complete answers: its streams are synchronous, which Django warns of under ASGI."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> Any:  # type: ignore[override]
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file:
            with closing(found.file):
                content = found.file.read()
        answer = HttpResponse(content, status=int(found.status))
        del answer["Content-Type"]
        for name, value in found.headers:
            answer[name] = value
        return answer
