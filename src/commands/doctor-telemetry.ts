// What `doctor` says about telemetry: whether the collector takes spans over HTTP, as JSON.

import type { Config } from "../config.ts";
import { send } from "../telemetry/send.ts";
import type { Finding } from "./doctor.ts";

const ABOUT = "telemetry";
const ANSWER_WITHIN_MS = 5_000;

/** Nothing where it is off, which is the default. It sends a request without a span in it. */
export async function checkTelemetry({ telemetry }: Config): Promise<readonly Finding[]> {
  if (telemetry === undefined) return [];
  const place = `the collector at ${new URL(telemetry.url).host}`;
  const sent = await send(telemetry, '{"resourceSpans":[]}', ANSWER_WITHIN_MS);
  if (sent.kind === "taken") return [{ verdict: "ok", about: ABOUT, says: `${place} takes spans` }];
  // Calls go on without it, so it is no failure of the gateway's.
  return [
    {
      verdict: "warn",
      about: ABOUT,
      says: `${place} does not take spans: ${sent.why}`,
      mend: "See that OTEL_EXPORTER_OTLP_ENDPOINT is its HTTP address (mostly port 4318), and what OTEL_EXPORTER_OTLP_HEADERS it asks for.",
    },
  ];
}
