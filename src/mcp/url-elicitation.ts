// Links for the person: where the client can open one itself (URL elicitation of revision 2026-07-28), the person gets the link
// of a claim or of an invoice from the client, and not by way of the model. The result of the tool waits in the request state.

import type * as sdkModule from "@modelcontextprotocol/server";
import type { InputRequiredResult, ServerContext } from "@modelcontextprotocol/server";
import { isObject, type JsonObject, objectIn, stringIn } from "../base/json.ts";
import { successResult } from "./tool-result.ts";
import type { ToolResult } from "./tool.ts";

const CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities";
const LINK = "link";
/** As long as a claim, which is the shorter one. */
const STATE_SECONDS = 900;

export type RequestStates = ReturnType<typeof createRequestStates>;

/** The client carries the state, so it is authenticated, and works for the tool that it was made for alone. */
export function createRequestStates(
  { createRequestStateCodec }: typeof sdkModule,
  key: Uint8Array,
) {
  return createRequestStateCodec<{ readonly tool: string; readonly result: JsonObject }>({
    key,
    ttlSeconds: STATE_SECONDS,
  });
}

interface ElicitationDeps {
  readonly sdk: typeof sdkModule;
  readonly states: RequestStates;
}

interface Link {
  readonly url: string;
  readonly message: string;
}

/** The link in the result of a tool; undefined if there is none to open. */
function linkOf(tool: string, result: JsonObject): Link | undefined {
  if (tool === "start_claim") {
    const attempt = objectIn(result["claim_attempt"]);
    const url = stringIn(attempt?.["verification_uri_complete"]);
    const code = stringIn(attempt?.["user_code"]) ?? "";
    return url === undefined
      ? undefined
      : { url, message: `Claim the account. The page must show the code ${code}.` };
  }
  const url = tool === "create_invoice" ? stringIn(result["pay_url"]) : undefined;
  return url === undefined ? undefined : { url, message: "Pay the invoice for credits." };
}

/** Asks the client to open the link of a result; undefined if the result has none, or if the client cannot. */
export async function askToOpen(
  { sdk: { inputRequired }, states }: ElicitationDeps,
  tool: string,
  { structuredContent: result, isError }: ToolResult,
  { mcpReq: { envelope } }: ServerContext,
): Promise<InputRequiredResult | undefined> {
  if (isError === true || result === undefined || !canOpen(envelope)) return undefined;
  const link = linkOf(tool, result);
  if (link === undefined) return undefined;
  return inputRequired({
    inputRequests: { [LINK]: inputRequired.elicitUrl(link) },
    requestState: await states.mint({ tool, result }),
  });
}

function canOpen(envelope: unknown): boolean {
  const capabilities = isObject(envelope) ? objectIn(envelope[CAPABILITIES_META]) : undefined;
  return objectIn(objectIn(capabilities?.["elicitation"])?.["url"]) !== undefined;
}

/** The result of a tool whose link the client has shown: what it did is not done again. Undefined for a call of another tool. */
export function resumedResult(tool: string, { mcpReq }: ServerContext): ToolResult | undefined {
  const state = mcpReq.requestState();
  if (!isObject(state) || state["tool"] !== tool) return undefined;
  const answer = objectIn(mcpReq.inputResponses?.[LINK]);
  const result = objectIn(state["result"]) ?? {};
  return successResult({ ...result, link_opened: answer?.["action"] === "accept" });
}
