// How much of large bodies may be in memory at once, of one caller's and of all: a body and what is read out of it stay
// there until its request is answered. Small bodies are not counted.

import { Fault } from "../base/fault.ts";

const MIB = 1_048_576;
/** Up to this size a body is small. */
export const SMALL_SHARE_BYTES = MIB;
const CALLER_MAX_BYTES = 128 * MIB;
const ALL_MAX_BYTES = 512 * MIB;
const RETRY_SECONDS = 1;

export interface BodyShares {
  /** Counts so many bytes more as a caller's; throws where that is too many. */
  readonly take: (caller: string, bytes: number) => void;
  /** Gives back what a caller took. */
  readonly giveBack: (caller: string, bytes: number) => void;
}

export interface ShareLimits {
  readonly callerBytes: number;
  readonly allBytes: number;
}

export function createBodyShares({
  callerBytes = CALLER_MAX_BYTES,
  allBytes = ALL_MAX_BYTES,
}: Partial<ShareLimits> = {}): BodyShares {
  const held = new Map<string, number>();
  let all = 0;
  return {
    take: (caller, bytes) => {
      const own = (held.get(caller) ?? 0) + bytes;
      if (own > callerBytes)
        throw new Fault("rate_limited", "too much of large bodies by one caller", {
          message: `Large requests of this account that are not answered yet have ${callerBytes / MIB} MiB together, which is the limit. Wait for one to be answered, or send smaller ones.`,
          retryAfterSeconds: RETRY_SECONDS,
        });
      if (all + bytes > allBytes)
        throw new Fault("overloaded", "too much of large bodies", {
          message:
            "The gateway has as many large requests open as it can hold. Wait for `retry-after` seconds, or send a smaller one.",
          retryAfterSeconds: RETRY_SECONDS,
        });
      held.set(caller, own);
      all += bytes;
    },
    giveBack: (caller, bytes) => {
      const left = (held.get(caller) ?? 0) - bytes;
      if (left > 0) held.set(caller, left);
      else held.delete(caller);
      all -= bytes;
    },
  };
}
