// Settings of telemetry, with OpenTelemetry's own names.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { commaSeparated, httpUrl, settings, type SettingValues } from "./setting-schemas.ts";

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\x20-\x7e]*$/;

export const TELEMETRY_SETTINGS = settings({
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    httpUrl.optional(),
    "",
    "The HTTP URL of an OpenTelemetry collector, such as `http://127.0.0.1:4318`. Exports a span per model call, see `docs/site/operations.md`.",
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [
    z.string().default("").transform(parseHeaders),
    "",
    "Headers for the collector, such as `authorization=Bearer%20…`, separated by commas.",
  ],
  OTEL_SERVICE_NAME: [
    z.string().max(200).default("postern"),
    "postern",
    "The service name of the spans.",
  ],
  OTEL_PROPAGATORS: [
    z.string().default("tracecontext").transform(commaSeparated),
    "tracecontext",
    "`none` starts a new trace for each call and ignores `traceparent`.",
  ],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    z
      .string()
      .refine(
        (protocol) => protocol.startsWith("http/"),
        "must be http/json, the only protocol that Postern supports; use the collector's HTTP port, usually 4318",
      )
      .optional(),
  ],
});

export interface TelemetryConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, Secret>>;
  readonly serviceName: string;
  /** Whether a call joins the caller's trace (`traceparent`). */
  readonly shouldContinueTraces: boolean;
}

export function parseTelemetryConfig(env: SettingValues<typeof TELEMETRY_SETTINGS>): {
  readonly telemetry?: TelemetryConfig;
} {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return {};
  return {
    telemetry: {
      url: `${endpoint}/v1/traces`,
      headers: env.OTEL_EXPORTER_OTLP_HEADERS,
      serviceName: env.OTEL_SERVICE_NAME,
      shouldContinueTraces: env.OTEL_PROPAGATORS.includes("tracecontext"),
    },
  };
}

function parseHeaders(list: string, context: z.core.$RefinementCtx): Record<string, Secret> {
  const headers: Record<string, Secret> = {};
  for (const entry of commaSeparated(list)) {
    const at = entry.indexOf("=");
    const name = entry.slice(0, at).trim().toLowerCase();
    const value = decodeHeaderValue(entry.slice(at + 1).trim());
    if (at > 0 && HEADER_NAME.test(name) && value !== undefined) headers[name] = secret(value);
    else
      context.addIssue({
        code: "custom",
        message:
          "must be headers such as api-key=abc, separated by commas; write spaces and commas in a value as %20 and %2C",
      });
  }
  return headers;
}

function decodeHeaderValue(text: string): string | undefined {
  try {
    const value = decodeURIComponent(text);
    return HEADER_VALUE.test(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
