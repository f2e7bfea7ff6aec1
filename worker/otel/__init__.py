"""OpenTelemetry's SDK, an optional extra: only :mod:`worker.otel.extra` can do without it."""
