// `doctor` on telemetry: whether the collector accepts spans as JSON over HTTP.

import type { Config } from "../../config/config.ts";
import { exportSpans } from "../../telemetry/otlp-export.ts";
import type { Finding } from "./finding.ts";

const CHECK = "telemetry";
const TIMEOUT_MS = 5_000;

/** No finding if telemetry is off. Sends an export without spans. */
export async function checkTelemetry({ telemetry }: Config): Promise<readonly Finding[]> {
  if (telemetry === undefined) return [];
  const place = `the collector at ${new URL(telemetry.url).host}`;
  const sent = await exportSpans(telemetry, '{"resourceSpans":[]}', TIMEOUT_MS);
  if (sent.kind === "accepted")
    return [{ status: "ok", check: CHECK, message: `${place} accepts spans` }];
  // A warning, because calls work without it.
  return [
    {
      status: "warn",
      check: CHECK,
      message: `${place} does not accept spans: ${sent.reason}`,
      hint: "Check that OTEL_EXPORTER_OTLP_ENDPOINT is its HTTP URL (usually port 4318), and which OTEL_EXPORTER_OTLP_HEADERS it needs.",
    },
  ];
}
