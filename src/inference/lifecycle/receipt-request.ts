// Whether a call gets a signed receipt.

import { readReceipt } from "../request/call-options.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import type { CallInput } from "./call.ts";

export function wantsReceipt(
  { json }: ParsedRequest,
  { caller, ceiling, headers }: CallInput,
): boolean {
  // Read in any case: a wrong value is an error.
  const isAsked = readReceipt(json, headers) || ceiling !== undefined;
  return isAsked || caller.policy?.receipts === true || caller.signsReceipts === true;
}
