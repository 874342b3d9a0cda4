// Settings of how long a call waits for its provider.

import { integer, settings } from "./setting-schemas.ts";

export const TIMEOUT_SECONDS_MAX = 3_600;
const timeout = integer(1, TIMEOUT_SECONDS_MAX);

export const TIMEOUT_SETTINGS = settings({
  POSTERN_REQUEST_TIMEOUT_SECONDS: [
    timeout.default(600),
    "600",
    "How long a reply that is not streamed may take; half of it while a fallback is left. `<PROVIDER>_REQUEST_TIMEOUT_SECONDS` is shorter for one provider.",
  ],
  POSTERN_STREAM_TIMEOUT_SECONDS: [
    timeout.default(180),
    "180",
    "How long the first byte of a stream may take; half of it while a fallback is left. `<PROVIDER>_STREAM_TIMEOUT_SECONDS` is shorter for one provider.",
  ],
  POSTERN_STREAM_IDLE_TIMEOUT_SECONDS: [
    timeout.default(180),
    "180",
    "How long a stream may pause between two chunks.",
  ],
});

export interface TimeoutConfig {
  readonly requestSeconds: number;
  readonly streamSeconds: number;
  readonly streamIdleSeconds: number;
}

export function timeoutConfigFrom(env: {
  readonly POSTERN_REQUEST_TIMEOUT_SECONDS: number;
  readonly POSTERN_STREAM_TIMEOUT_SECONDS: number;
  readonly POSTERN_STREAM_IDLE_TIMEOUT_SECONDS: number;
}): TimeoutConfig {
  return {
    requestSeconds: env.POSTERN_REQUEST_TIMEOUT_SECONDS,
    streamSeconds: env.POSTERN_STREAM_TIMEOUT_SECONDS,
    streamIdleSeconds: env.POSTERN_STREAM_IDLE_TIMEOUT_SECONDS,
  };
}
