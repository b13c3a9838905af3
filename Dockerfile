# rerail's service: `docker build -t rerail .`, then any verb of `python -m workers`.
# Checked by a test of the house for pins and user only; no image was built where this was written.
FROM python:3.12.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONPATH=/app
WORKDIR /app

COPY requirements/app.txt requirements/app.txt
RUN pip install --require-hashes -r requirements/app.txt
COPY . .
RUN pip install --no-deps --no-build-isolation . \
 && useradd --system --uid 10001 --create-home rerail \
 && install -d -o rerail -g rerail /var/lib/rerail

USER rerail
ENV RERAIL_SETTINGS=/etc/rerail/rerail.yaml
ENTRYPOINT ["python", "-m", "workers"]
CMD ["up"]
