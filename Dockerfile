# Cronty with its web pages and a cluster: docker build -t cronty . &&
# docker run -p 127.0.0.1:8000:8000 -e CRONTY_URL=http://localhost:8000 --stop-timeout 40 -v cronty:/data cronty
# compose.yaml has PostgreSQL and two clusters.

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/cronty
# The packages change less often than the code, so they are a layer of their own.
COPY requirements.txt ./
RUN /opt/cronty/bin/pip install --require-hashes --no-deps -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY schedules schedules/
COPY cronty_site cronty_site/
COPY templates templates/
RUN /opt/cronty/bin/pip install --no-deps . \
    && /opt/cronty/bin/pip uninstall -y pip

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="Cronty" org.opencontainers.image.licenses="MIT"
RUN useradd --system --uid 10001 --user-group --home-dir /data --shell /usr/sbin/nologin cronty \
    && install -d -o cronty -g cronty -m 0700 /data
COPY --from=build /opt/cronty /opt/cronty/
# Listen for the host's port; CRONTY_URL says under which name the pages are reached.
ENV PATH=/opt/cronty/bin:/usr/local/bin:/usr/bin:/bin \
    CRONTY_DATA=/data \
    CRONTY_HOST=0.0.0.0 \
    CRONTY_PORT=8000
USER cronty
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['CRONTY_PORT']}/healthz\", timeout=4)"]
ENTRYPOINT ["cronty"]
CMD ["up"]
