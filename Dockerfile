# i2s in a container: docker build -t i2s . && docker run --rm -v "$PWD:/work:ro" i2s lint model.gguf
FROM python:3.13-slim AS build
# Debian keeps only one version of a package; a pinned version would disappear with the next one.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/i2s && /opt/i2s/bin/pip install --no-cache-dir . && /opt/i2s/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/i2s /opt/i2s
ENV PATH="/opt/i2s/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin i2s && i2s --version
USER 10001
WORKDIR /work
ENTRYPOINT ["i2s"]
CMD ["--help"]
