// Bounds the request bodies that are being received at a time: each holds a socket, whether bytes arrive or not. Bodies that
// have arrived are bounded by their bytes, in body-quota.ts.

import { Fault } from "../../base/fault.ts";
import { BODY_CALLER_NAMES, BODY_GROUP_NAMES, type BodyQuotaCaller } from "./body-quota.ts";

/** A network has many callers only behind a proxy, such as that of a company. */
const UPLOADS_MAX = {
  key: { perCaller: 1_024, perGroup: 2_048 },
  network: { perCaller: 256, perGroup: 1_024 },
} as const;
/** The most file descriptors that one caller can take, if the process has few. */
const DESCRIPTOR_SHARES = {
  key: { perCaller: 1 / 4, perGroup: 1 / 2 },
  network: { perCaller: 1 / 8, perGroup: 1 / 4 },
} as const;
const RETRY_SECONDS = 1;

type UploadLimits = Readonly<
  Record<BodyQuotaCaller["kind"], { readonly perCaller: number; readonly perGroup: number }>
>;

export function uploadLimitsFor(descriptorsMax: number): UploadLimits {
  const bounded = (kind: BodyQuotaCaller["kind"], scope: "perCaller" | "perGroup"): number =>
    Math.max(
      1,
      Math.min(
        UPLOADS_MAX[kind][scope],
        Math.floor(descriptorsMax * DESCRIPTOR_SHARES[kind][scope]),
      ),
    );
  const limitsOf = (kind: BodyQuotaCaller["kind"]) => ({
    perCaller: bounded(kind, "perCaller"),
    perGroup: bounded(kind, "perGroup"),
  });
  return { key: limitsOf("key"), network: limitsOf("network") };
}

export interface UploadLimit {
  /** Counts an upload; throws above a limit. */
  readonly begin: (caller: BodyQuotaCaller) => void;
  readonly end: (caller: BodyQuotaCaller) => void;
}

export function createUploadLimit(limits: UploadLimits = UPLOADS_MAX): UploadLimit {
  const open = new Map<string, number>();
  const add = (id: string, change: 1 | -1): void => {
    const count = (open.get(id) ?? 0) + change;
    if (count > 0) open.set(id, count);
    else open.delete(id);
  };
  return {
    begin: ({ id, groupId, kind }) => {
      const { perCaller, perGroup } = limits[kind];
      if ((open.get(id) ?? 0) >= perCaller) throw overLimit(BODY_CALLER_NAMES[kind], perCaller);
      if ((open.get(groupId) ?? 0) >= perGroup) throw overLimit(BODY_GROUP_NAMES[kind], perGroup);
      add(id, 1);
      add(groupId, 1);
    },
    end: ({ id, groupId }) => {
      add(id, -1);
      add(groupId, -1);
    },
  };
}

function overLimit(callerName: string, max: number): Fault {
  return new Fault("rate_limited", `uploads of ${callerName} above the limit`, {
    message: `${callerName[0]?.toUpperCase()}${callerName.slice(1)} is sending ${max} request bodies at once, which is the limit. Complete or cancel some of them first.`,
    retryAfterSeconds: RETRY_SECONDS,
  });
}
