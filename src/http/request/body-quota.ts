// Bounds the memory of request bodies in flight: per caller, per group of callers, and in total.

import { Fault } from "../../base/fault.ts";

const MIB = 1_048_576;
/** A body announced up to this size counts at once with its announced length; a larger one counts as it arrives. */
export const COUNTED_AT_ONCE_BYTES = 65_536;
const CALLER_MAX_BYTES = 128 * MIB;
const GROUP_MAX_BYTES = 256 * MIB;
const TOTAL_MAX_BYTES = 512 * MIB;
const RETRY_SECONDS = 1;

/** Whose bodies count together: an API key and its account or, without a key, a network and the wider one around it. */
export interface BodyQuotaCaller {
  readonly id: string;
  /** An account can create many keys, and a site has many networks: one group never takes the whole quota. */
  readonly groupId: string;
  readonly kind: "key" | "network";
}

export interface BodyQuota {
  /** Adds bytes of a caller; throws above a limit. */
  readonly acquire: (caller: BodyQuotaCaller, bytes: number) => void;
  readonly release: (caller: BodyQuotaCaller, bytes: number) => void;
  readonly totalBytes: () => number;
}

export interface BodyQuotaLimits {
  readonly perCallerBytes: number;
  readonly perGroupBytes: number;
  readonly totalBytes: number;
}

export const BODY_CALLER_NAMES = { key: "this API key", network: "your network" } as const;
export const BODY_GROUP_NAMES = { key: "this account", network: "your wider network" } as const;

export function createBodyQuota({
  perCallerBytes = CALLER_MAX_BYTES,
  perGroupBytes = GROUP_MAX_BYTES,
  totalBytes = TOTAL_MAX_BYTES,
}: Partial<BodyQuotaLimits> = {}): BodyQuota {
  const usedBytes = new Map<string, number>();
  let total = 0;
  const subtract = (id: string, bytes: number): void => {
    const remaining = (usedBytes.get(id) ?? 0) - bytes;
    if (remaining > 0) usedBytes.set(id, remaining);
    else usedBytes.delete(id);
  };
  return {
    acquire: ({ id, groupId, kind }, bytes) => {
      const callerTotal = (usedBytes.get(id) ?? 0) + bytes;
      if (callerTotal > perCallerBytes) throw overLimit(BODY_CALLER_NAMES[kind], perCallerBytes);
      const groupTotal = (usedBytes.get(groupId) ?? 0) + bytes;
      if (groupTotal > perGroupBytes) throw overLimit(BODY_GROUP_NAMES[kind], perGroupBytes);
      if (total + bytes > totalBytes)
        throw new Fault("overloaded", "request bodies above the limit", {
          message:
            "The request bodies in flight have reached the memory limit of the gateway. Retry after `retry-after` seconds, or send a smaller request.",
          retryAfterSeconds: RETRY_SECONDS,
        });
      usedBytes.set(id, callerTotal);
      usedBytes.set(groupId, groupTotal);
      total += bytes;
    },
    release: ({ id, groupId }, bytes) => {
      subtract(id, bytes);
      subtract(groupId, bytes);
      total -= bytes;
    },
    totalBytes: () => total,
  };
}

function overLimit(callerName: string, limitBytes: number): Fault {
  return new Fault("rate_limited", `request bodies of ${callerName} above the limit`, {
    message: `The request bodies in flight of ${callerName} have reached the limit of ${limitBytes / MIB} MiB. Wait for a request to complete, or send smaller ones.`,
    retryAfterSeconds: RETRY_SECONDS,
  });
}
