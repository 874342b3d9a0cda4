// Fields of content that no other API has, such as labels of the caller's framework: writers read only the content.

import { type Loss, takeNativeFields } from "../canonical/canonical-losses.ts";
import type { Part, WireName } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest } from "../canonical/canonical-request.ts";

/** Lists them, unless the wire is their own. */
export function addPartLabelLosses(
  { turns }: CanonicalRequest,
  wire: WireName,
  losses: Loss[],
): void {
  for (const { parts } of turns) addLosses(parts, wire, losses);
}

function addLosses(parts: readonly Part[], wire: WireName, losses: Loss[]): void {
  for (const part of parts) {
    if (part.type === "native") continue;
    if (part.native !== undefined) takeNativeFields(part.native, wire, part.path, losses);
    if (part.type === "tool_result") addLosses(part.content, wire, losses);
  }
}
