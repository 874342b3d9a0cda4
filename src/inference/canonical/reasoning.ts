// The rules of reasoning that hold between all wires: scales of effort, and blobs that only their maker can read.
import { EFFORTS, type Effort } from "./request.ts";
import { WIRE_NAMES, type OpaqueBlob, type ModelOrigin, type WireName } from "./parts.ts";
import type { Loss } from "./loss.ts";

const BLOB_PREFIX = "pst1.";
const BLOB_KINDS = [
  "signature",
  "encrypted",
  "call",
  "text",
  "image",
] as const satisfies readonly OpaqueBlob["kind"][];

/** Tokens to think with, for a model that takes a budget. The thresholds back are those that other gateways use. */
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

/** The nearest effort that a model knows; of two equally near ones, the lower. */
export function clampEffort(effort: Effort, supported: readonly Effort[] | undefined): Effort {
  if (supported === undefined || supported.length === 0 || supported.includes(effort))
    return effort;
  const at = EFFORTS.indexOf(effort);
  const distance = (other: Effort) =>
    Math.abs(EFFORTS.indexOf(other) - at) + (EFFORTS.indexOf(other) > at ? 0.5 : 0);
  return supported.reduce((best, other) => (distance(other) < distance(best) ? other : best));
}

/**
 * A blob as it travels through an API that is not its own: `pst1.`, who made it, `.`, the data. Where the caller's API is
 * the blob's own and nobody is named, the data travels bare.
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

/** What a caller brought back. Without a seal it is bare: of the API over which it came, of an unknown model. */
export function decodeBlob(text: string, wire: WireName, kind: OpaqueBlob["kind"]): OpaqueBlob {
  return decodePrefixedBlob(text) ?? { wire, kind, data: text };
}

/**
 * The rule: a blob goes back only to the wire, provider and model that made it; a bare one to its own wire. All others are
 * dropped, with the reasoning that they prove, because no provider can read another's.
 */
export function canReplay(blob: OpaqueBlob, wire: WireName, target: ModelOrigin): boolean {
  if (blob.wire !== wire) return false;
  return (
    blob.origin === undefined ||
    (blob.origin.provider === target.provider && blob.origin.model === target.model)
  );
}

/** Notes that what proves a thing to its maker is left out for another. */
export function addSignatureLoss(
  losses: Loss[],
  path: string,
  signature: OpaqueBlob | undefined,
): void {
  if (signature !== undefined)
    losses.push({
      path,
      reason: "A signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
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
