# The server as an image: `make image`. docs/install.md says what it expects; `make image-check` proves it.
#
# The base is the newest Python that the tests run with. For good name one by its digest: --build-arg BASE=...@sha256:...
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
# Where packages come from, for those without the public index: pip reads these by itself. They stay in this stage.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
# Times inside the wheel: 1980-01-01, the first that a zip file knows. The same checkout gives the same wheel.
ARG SOURCE_DATE_EPOCH=315532800
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
# Locked by hashes, and wheels only: nothing is compiled, and no package runs code of its own while it is installed.
COPY requirements/run.lock requirements/build.lock requirements/
RUN ["python3", "-m", "venv", "--without-pip", "/opt/gpu-autoscaler"]
RUN ["python3", "-m", "pip", "--python", "/opt/gpu-autoscaler/bin/python", "install", "--no-compile", \
     "--require-hashes", "--only-binary=:all:", "--requirement", "requirements/run.lock"]
RUN ["python3", "-m", "venv", "--without-pip", "/build"]
RUN ["python3", "-m", "pip", "--python", "/build/bin/python", "install", \
     "--require-hashes", "--only-binary=:all:", "--requirement", "requirements/build.lock"]
COPY pyproject.toml README.md LICENSE ./
COPY docs docs
COPY receiver receiver
RUN ["python3", "-m", "pip", "--python", "/build/bin/python", "wheel", \
     "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", "/wheel", "."]
RUN ["python3", "-m", "pip", "--python", "/opt/gpu-autoscaler/bin/python", "install", "--no-compile", \
     "--no-deps", "--no-index", "--find-links", "/wheel", "civo-gpu-autoscaler"]
# What the image is made of: a bill of materials (CycloneDX) and the licences of its packages.
COPY tools/image/sbom.py tools/image/
RUN ["/opt/gpu-autoscaler/bin/python", "tools/image/sbom.py", "/opt/gpu-autoscaler/share"]
# The root file system is read-only: modules are compiled now, and never checked against their sources again.
# The asynchronous half of the Kubernetes client is not used.
RUN ["python3", "-m", "compileall", "-q", "-j", "0", "-x", "/kubernetes/aio/", \
     "--invalidation-mode", "unchecked-hash", "/opt/gpu-autoscaler/lib"]
RUN ["mkdir", "/data"]

FROM ${BASE}
ARG BASE
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG SOURCE=https://civo-gpu-autoscaler.example
LABEL org.opencontainers.image.title="civo-gpu-autoscaler" \
      org.opencontainers.image.description="Scale Civo GPU node pools from Prometheus alerts, within a budget, and say why." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=build /opt/gpu-autoscaler /opt/gpu-autoscaler
# The only folder that it writes to, beside /tmp. Everything else belongs to root.
COPY --from=build --chown=10001:10001 /data /var/lib/gpu-autoscaler
ENV PATH=/opt/gpu-autoscaler/bin:$PATH PYTHONDONTWRITEBYTECODE=1 GPU_AUTOSCALER_CONFIG=/etc/gpu-autoscaler/config.yaml
USER 10001:10001
WORKDIR /var/lib/gpu-autoscaler
VOLUME /var/lib/gpu-autoscaler
EXPOSE 8080
# Kubernetes does not read this: it has probes. `receiver/server/healthcheck.py` asks /healthz of this very container.
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s --retries=3 \
    CMD ["python", "-m", "receiver.server.healthcheck"]
# No shell between: SIGTERM reaches gunicorn, which `serve` becomes.
STOPSIGNAL SIGTERM
ENTRYPOINT ["gpu-autoscaler"]
CMD ["serve"]
