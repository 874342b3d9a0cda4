// Rules of reasoning that all wires share: effort levels, token budgets, and opaque blobs.

import { addToleratedLoss, type Loss } from "./canonical-losses.ts";
import { type ModelOrigin, type OpaqueBlob, WIRE_NAMES, type WireName } from "./canonical-parts.ts";
import { type Effort, EFFORTS, type Reasoning } from "./canonical-request.ts";

const BLOB_PREFIX = "pst1.";
const BLOB_KINDS = [
  "signature",
  "encrypted",
  "call",
  "text",
  "image",
] as const satisfies readonly OpaqueBlob["kind"][];

/** Token budgets for models that take no effort. `budgetToEffort` has the thresholds that other gateways use. */
const EFFORT_BUDGETS = {
  none: 0,
  minimal: 1_024,
  low: 2_048,
  medium: 5_120,
  high: 10_240,
  xhigh: 20_480,
  max: 32_768,
} as const satisfies Record<Effort, number>;

export function effortToBudget(effort: Effort): number {
  return EFFORT_BUDGETS[effort];
}

export function budgetToEffort(budgetTokens: number): Effort {
  if (budgetTokens <= 0) return "none";
  if (budgetTokens >= 10_000) return "high";
  if (budgetTokens >= 5_000) return "medium";
  return budgetTokens >= 2_000 ? "low" : "minimal";
}

/** Whether the caller sets the reasoning, and does not only ask for its summary. */
export function isReasoningSet({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode !== undefined || effort !== undefined || budgetTokens !== undefined;
}

export function isReasoningOff({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode === "off" || effort === "none" || budgetTokens === 0;
}

/** The effort that the caller asks for, maybe by a budget. */
export function requestedEffort(reasoning: Reasoning): Effort | undefined {
  const { effort, budgetTokens } = reasoning;
  if (isReasoningOff(reasoning)) return "none";
  return effort ?? (budgetTokens === undefined ? undefined : budgetToEffort(budgetTokens));
}

/** The nearest effort that the model supports; a loss if it is another one. */
export function supportedEffort(
  wanted: Effort,
  supported: readonly Effort[] | undefined,
  addLoss: (reason: string) => void,
): Effort {
  const used = clampEffort(wanted, supported);
  if (used !== wanted)
    addLoss(`This model does not support the effort ${wanted}; ${used} is used instead.`);
  return used;
}

/** The nearest supported effort; the lower of two equally near ones. */
export function clampEffort(effort: Effort, supported: readonly Effort[] | undefined): Effort {
  if (supported === undefined || supported.length === 0 || supported.includes(effort))
    return effort;
  const at = EFFORTS.indexOf(effort);
  const distance = (other: Effort) =>
    Math.abs(EFFORTS.indexOf(other) - at) + (EFFORTS.indexOf(other) > at ? 0.5 : 0);
  return supported.reduce((best, other) => (distance(other) < distance(best) ? other : best));
}

/**
 * The blob as a string in a field of the caller's API: `pst1.<header>.<data>`, where the header names the blob's wire, kind
 * and origin. A blob of the caller's own API without an origin is its bare data.
 */
export function encodeBlob(blob: OpaqueBlob, through: WireName): string {
  if (blob.origin === undefined && blob.wire === through) return blob.data;
  const header = JSON.stringify([
    blob.wire,
    blob.kind,
    blob.origin?.provider ?? "",
    blob.origin?.model ?? "",
  ]);
  return `${BLOB_PREFIX}${Buffer.from(header).toString("base64url")}.${blob.data}`;
}

/** Whether a caller sent back a blob that this gateway encoded. */
export function isEncodedBlob(value: unknown): boolean {
  return typeof value === "string" && value.startsWith(BLOB_PREFIX);
}

/** Reads a blob that a caller sent back. Without the prefix it is bare data of the caller's API, of unknown origin. */
export function decodeBlob(text: string, wire: WireName, kind: OpaqueBlob["kind"]): OpaqueBlob {
  return decodePrefixedBlob(text) ?? { wire, kind, data: text };
}

/**
 * A blob is sent only to the wire, provider and model that produced it, and one without origin to its own wire. Others are
 * dropped with the reasoning they belong to, because no provider can read another's.
 */
export function canReplay(blob: OpaqueBlob, wire: WireName, target: ModelOrigin): boolean {
  if (blob.wire !== wire) return false;
  return (
    blob.origin === undefined ||
    (blob.origin.provider === target.provider && blob.origin.model === target.model)
  );
}

export function addReasoningLoss(losses: Loss[], path: string): undefined {
  const reason = "Earlier reasoning is only valid for the provider and model that produced it.";
  return addToleratedLoss(losses, path, reason);
}

export function addSignatureLoss(
  losses: Loss[],
  path: string,
  signature: OpaqueBlob | undefined,
): void {
  const reason = "A signature is only valid for the provider and model that produced it.";
  if (signature !== undefined) addToleratedLoss(losses, path, reason);
}

function decodePrefixedBlob(text: string): OpaqueBlob | undefined {
  const dot = text.indexOf(".", BLOB_PREFIX.length);
  if (!text.startsWith(BLOB_PREFIX) || dot < 0) return undefined;
  try {
    const header: unknown = JSON.parse(
      Buffer.from(text.slice(BLOB_PREFIX.length, dot), "base64url").toString(),
    );
    if (!Array.isArray(header)) return undefined;
    const wire = WIRE_NAMES.find((one) => one === header[0]);
    const kind = BLOB_KINDS.find((one) => one === header[1]);
    if (wire === undefined || kind === undefined) return undefined;
    const origin =
      typeof header[2] === "string" && typeof header[3] === "string" && header[2] !== ""
        ? { provider: header[2], model: header[3] }
        : undefined;
    return { wire, kind, data: text.slice(dot + 1), origin };
  } catch {
    return undefined;
  }
}
