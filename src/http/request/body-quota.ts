// Bounds the memory of large request bodies in flight, per caller and in total. Small bodies are not counted.

import { Fault } from "../../base/fault.ts";

const MIB = 1_048_576;
/** Bodies up to this size are not counted. */
export const QUOTA_EXEMPT_BYTES = MIB;
const CALLER_MAX_BYTES = 128 * MIB;
const TOTAL_MAX_BYTES = 512 * MIB;
const RETRY_SECONDS = 1;

export interface BodyQuota {
  /** Adds bytes to a caller's total; throws above a limit. */
  readonly acquire: (caller: string, bytes: number) => void;
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
  const usedBytes = new Map<string, number>();
  let total = 0;
  return {
    acquire: (caller, bytes) => {
      const callerTotal = (usedBytes.get(caller) ?? 0) + bytes;
      if (callerTotal > perCallerBytes)
        throw new Fault("rate_limited", "large bodies of one caller above the limit", {
          message: `The large requests of this account in flight have reached the limit of ${perCallerBytes / MIB} MiB. Wait for one to complete, or send smaller requests.`,
          retryAfterSeconds: RETRY_SECONDS,
        });
      if (total + bytes > totalBytes)
        throw new Fault("overloaded", "large bodies above the limit", {
          message:
            "The gateway has too many large requests in flight. Retry after `retry-after` seconds, or send a smaller request.",
          retryAfterSeconds: RETRY_SECONDS,
        });
      usedBytes.set(caller, callerTotal);
      total += bytes;
    },
    release: (caller, bytes) => {
      const remaining = (usedBytes.get(caller) ?? 0) - bytes;
      if (remaining > 0) usedBytes.set(caller, remaining);
      else usedBytes.delete(caller);
      total -= bytes;
    },
  };
}
