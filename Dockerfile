# The registry's image: one for the migration job and for the API processes, without PostgreSQL's server, pip or a secret.
# What it is made of is in docs/operations.md. The digest is that of the list for all architectures; `make pin-images`
# renews it.
#   docker build -t registry .
ARG PYTHON_IMAGE=python:3.11.15-slim-trixie@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY requirements/build.txt requirements/image.txt requirements/
RUN python -m venv --without-pip /opt/registry \
    && pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt \
    && pip --python /opt/registry/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
        -r requirements/image.txt
COPY pyproject.toml README.md ./
COPY registry registry
COPY migrations migrations
RUN pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheel . \
    && pip --python /opt/registry/bin/python install --no-cache-dir --no-index --no-deps /wheel/*.whl
COPY --chmod=755 image/healthcheck.py /opt/registry/bin/healthcheck

FROM ${PYTHON_IMAGE}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="registry" \
      org.opencontainers.image.description="The Kubernetes REST API for custom resources, on PostgreSQL" \
      org.opencontainers.image.revision="${REVISION}"
# psql, for `registry psql`; the numeric account is what Kubernetes' runAsNonRoot can check.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends postgresql-client \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 registry \
    && useradd --uid 10001 --gid 10001 --shell /usr/sbin/nologin --home-dir /var/lib/registry --create-home registry
COPY --from=build /opt/registry /opt/registry
USER 10001:10001
ENV PATH=/opt/registry/bin:$PATH REGISTRY_DATA_DIR=/var/lib/registry REGISTRY_HOST=0.0.0.0
VOLUME /var/lib/registry
EXPOSE 6443
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["healthcheck"]
ENTRYPOINT ["registry"]
CMD ["serve"]
