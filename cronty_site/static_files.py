"""The middleware that serves static files."""

from contextlib import closing
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise that reads whole files: Django warns about its synchronous streams under ASGI."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> Any:  # type: ignore[override]
        response = static_file.get_response(request.method, request.META)
        content = b""
        if response.file:
            with closing(response.file):
                content = response.file.read()
        answer = HttpResponse(content, status=int(response.status))
        del answer["Content-Type"]
        for name, value in response.headers:
            answer[name] = value
        return answer
