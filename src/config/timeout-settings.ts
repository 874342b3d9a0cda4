// Settings of how long a call waits for its provider.

import { integer } from "./setting-schemas.ts";

export const TIMEOUT_SETTINGS = {
  POSTERN_REQUEST_TIMEOUT_SECONDS: {
    defaultValue: "600",
    description:
      "How long a reply that is not streamed may take; half of it while a fallback is left. `<PROVIDER>_REQUEST_TIMEOUT_SECONDS` is shorter for one provider.",
  },
  POSTERN_STREAM_TIMEOUT_SECONDS: {
    defaultValue: "180",
    description:
      "How long the first byte of a stream may take; half of it while a fallback is left. `<PROVIDER>_STREAM_TIMEOUT_SECONDS` is shorter for one provider.",
  },
  POSTERN_STREAM_IDLE_TIMEOUT_SECONDS: {
    defaultValue: "180",
    description: "How long a stream may pause between two chunks.",
  },
} as const;

export const TIMEOUT_SECONDS_MAX = 3_600;
const timeout = integer(1, TIMEOUT_SECONDS_MAX);

export const TIMEOUT_ENVIRONMENT = {
  POSTERN_REQUEST_TIMEOUT_SECONDS: timeout.default(600),
  POSTERN_STREAM_TIMEOUT_SECONDS: timeout.default(180),
  POSTERN_STREAM_IDLE_TIMEOUT_SECONDS: timeout.default(180),
};

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
