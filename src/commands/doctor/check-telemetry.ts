// What `doctor` says about telemetry: whether the collector takes spans over HTTP, as JSON.

import type { Config } from "../../config/config.ts";
import { exportSpans } from "../../telemetry/otlp-export.ts";
import type { Finding } from "./finding.ts";

const CHECK = "telemetry";
const TIMEOUT_MS = 5_000;

/** Nothing where it is off, which is the default. It sends a request without a span in it. */
export async function checkTelemetry({ telemetry }: Config): Promise<readonly Finding[]> {
  if (telemetry === undefined) return [];
  const place = `the collector at ${new URL(telemetry.url).host}`;
  const sent = await exportSpans(telemetry, '{"resourceSpans":[]}', TIMEOUT_MS);
  if (sent.kind === "accepted")
    return [{ status: "ok", check: CHECK, message: `${place} takes spans` }];
  // Calls go on without it, so it is no failure of the gateway's.
  return [
    {
      status: "warn",
      check: CHECK,
      message: `${place} does not take spans: ${sent.reason}`,
      hint: "See that OTEL_EXPORTER_OTLP_ENDPOINT is its HTTP address (mostly port 4318), and what OTEL_EXPORTER_OTLP_HEADERS it asks for.",
    },
  ];
}
