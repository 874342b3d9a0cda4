// The settings of telemetry: whether a collector is told of each model call, under OpenTelemetry's own names.

import { z } from "zod";
import { type Secret, secret } from "../base/secret.ts";
import { httpUrl, commaSeparated } from "./schema.ts";

export const TELEMETRY_SETTINGS: Readonly<
  Record<string, { readonly defaultValue: string; readonly description: string }>
> = {
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    defaultValue: "",
    description:
      "An OpenTelemetry collector's HTTP address, such as `http://127.0.0.1:4318`: it is told of each model call, see `docs/operations.md`.",
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    defaultValue: "",
    description: "Headers for it, such as `authorization=Bearer%20…`, with commas between.",
  },
  OTEL_SERVICE_NAME: {
    defaultValue: "postern",
    description: "Under which name the calls are told.",
  },
  OTEL_PROPAGATORS: {
    defaultValue: "tracecontext",
    description: "`none` begins a trace for each call, whatever `traceparent` its caller sent.",
  },
};

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\x20-\x7e]*$/;

export const TELEMETRY_ENVIRONMENT = {
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl.optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z
    .string()
    .default("")
    .transform((list, context) => parseHeaders(list, context)),
  OTEL_EXPORTER_OTLP_PROTOCOL: z
    .string()
    .refine(
      (protocol) => protocol.startsWith("http/"),
      "must be http/json, which is what Postern speaks: name the collector's HTTP port, mostly 4318",
    )
    .optional(),
  OTEL_SERVICE_NAME: z.string().max(200).default("postern"),
  OTEL_PROPAGATORS: z.string().default("tracecontext").transform(commaSeparated),
};

const TelemetryEnvironment = z.object(TELEMETRY_ENVIRONMENT);

export interface TelemetryConfig {
  /** Where spans are sent. */
  readonly url: string;
  readonly headers: Readonly<Record<string, Secret>>;
  readonly serviceName: string;
  /** Whether a call is part of the trace that its caller names. */
  readonly shouldContinueTraces: boolean;
}

export function parseTelemetryConfig(env: z.infer<typeof TelemetryEnvironment>): {
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
          "must be headers such as api-key=abc, with commas between; blanks and commas in a value are written as %20 and %2C",
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
