import type { NativePart, WireName } from "../canonical/canonical-parts.ts";
import { isForeignCallBlock, isServerCallBlock } from "../messages/messages-server-calls.ts";
import { isForeignRun, isServerCallItem } from "../responses/responses-server-calls.ts";

/** Whether a part is a call of a tool that another provider ran, or its result. */
export function isForeignCall({ wire: own, value }: NativePart, wire: WireName): boolean {
  if (own === "responses") return own === wire ? isForeignRun(value) : isServerCallItem(value);
  if (own !== "messages") return false;
  return own === wire ? isForeignCallBlock(value) : isServerCallBlock(value);
}
