// How much of large bodies may be in memory at once, of one caller's and of all: a body and what is read out of it stay
// there until its request is answered. Small bodies are not counted.

import { Fault } from "../../base/fault.ts";

const MIB = 1_048_576;
/** Up to this size a body is small. */
export const QUOTA_EXEMPT_BYTES = MIB;
const CALLER_MAX_BYTES = 128 * MIB;
const TOTAL_MAX_BYTES = 512 * MIB;
const RETRY_SECONDS = 1;

export interface BodyQuota {
  /** Counts so many bytes more as a caller's; throws where that is too many. */
  readonly acquire: (caller: string, bytes: number) => void;
  /** Gives back what a caller took. */
  readonly release: (caller: string, bytes: number) => void;
}

export interface BodyQuotaLimits {
  readonly perCallerBytes: number;
  readonly totalBytes: number;
}

export function createBodyQuota({
  perCallerBytes = CALLER_MAX_BYTES,
  totalBytes = TOTAL_MAX_BYTES,
}: Partial<BodyQuotaLimits> = {}): BodyQuota {
  const held = new Map<string, number>();
  let total = 0;
  return {
    acquire: (caller, bytes) => {
      const callerTotal = (held.get(caller) ?? 0) + bytes;
      if (callerTotal > perCallerBytes)
        throw new Fault("rate_limited", "too much of large bodies by one caller", {
          message: `Large requests of this account that are not answered yet have ${perCallerBytes / MIB} MiB together, which is the limit. Wait for one to be answered, or send smaller ones.`,
          retryAfterSeconds: RETRY_SECONDS,
        });
      if (total + bytes > totalBytes)
        throw new Fault("overloaded", "too much of large bodies", {
          message:
            "The gateway has as many large requests open as it can hold. Wait for `retry-after` seconds, or send a smaller one.",
          retryAfterSeconds: RETRY_SECONDS,
        });
      held.set(caller, callerTotal);
      total += bytes;
    },
    release: (caller, bytes) => {
      const remaining = (held.get(caller) ?? 0) - bytes;
      if (remaining > 0) held.set(caller, remaining);
      else held.delete(caller);
      total -= bytes;
    },
  };
}
