# The registry's image: one for the migration job and for the API processes. It holds no PostgreSQL and no secret.
#   docker build -t registry .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY registry registry
COPY migrations migrations
RUN python -m venv /opt/registry \
    && /opt/registry/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.11-slim
COPY --from=build /opt/registry /opt/registry
RUN useradd --system --home-dir /var/lib/registry --create-home registry
USER registry
ENV PATH=/opt/registry/bin:$PATH REGISTRY_DATA_DIR=/var/lib/registry REGISTRY_HOST=0.0.0.0
VOLUME /var/lib/registry
EXPOSE 6443
ENTRYPOINT ["registry"]
CMD ["serve"]
