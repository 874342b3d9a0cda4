// The parameters of a JSON-RPC message, checked before the SDK reads it: the SDK answers malformed ones with "internal error"
// and the text of its schema library.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { objectIn } from "../base/json.ts";
import { lookUp } from "../base/look-up.ts";
import { parseWithSchema } from "../http/request/validate.ts";

const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

/** Nothing of this server changes while it runs, so there is nothing to listen for. */
const SUBSCRIBE = "subscriptions/listen";
/** Every message of revision 2026-07-28 has it. The SDK knows that earlier ones have no such method. */
const REVISION_META = "io.modelcontextprotocol/protocolVersion";

const Meta = z.looseObject({
  progressToken: z
    .union([z.string(), z.number()], { error: "must be a string or a number" })
    .optional(),
});
const List = z.looseObject({ cursor: z.string().optional(), _meta: Meta.optional() });

const PARAMS: Readonly<Record<string, z.ZodType>> = {
  initialize: z.looseObject({
    protocolVersion: z.string(),
    capabilities: z.looseObject({}),
    clientInfo: z.looseObject({ name: z.string(), version: z.string() }),
    _meta: Meta.optional(),
  }),
  ping: z.looseObject({ _meta: Meta.optional() }),
  "tools/list": List,
  "prompts/list": List,
  "prompts/get": z.looseObject({
    name: z.string(),
    arguments: z.record(z.string(), z.string()).optional(),
    _meta: Meta.optional(),
  }),
  "resources/list": List,
  "resources/templates/list": List,
  "tools/call": z.looseObject({
    name: z.string(),
    arguments: z.looseObject({}).optional(),
    _meta: Meta.optional(),
  }),
  "resources/read": z.looseObject({ uri: z.string(), _meta: Meta.optional() }),
};

interface Message {
  readonly id?: string | number | undefined;
  readonly method: string;
  readonly params?: unknown;
}

/** The error response to a message that the server cannot process; undefined for all others. */
export function rejectedMessage({ id, method, params = {} }: Message): Response | undefined {
  // Notifications have no response.
  if (id === undefined) return undefined;
  const isModern = objectIn(objectIn(params)?.["_meta"])?.[REVISION_META] !== undefined;
  // The SDK knows that the revision has no such method.
  if (method === "initialize" && isModern) return undefined;
  if (method === SUBSCRIBE && isModern)
    return errorResponse(id, 404, { code: METHOD_NOT_FOUND, message: "Method not found" });
  const schema = lookUp(PARAMS, method);
  if (schema === undefined) return undefined;
  try {
    parseWithSchema(schema, params, "body");
    return undefined;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { param } = error.options;
    // As the SDK answers the errors that it finds itself; clients of earlier revisions read no body of a 400.
    return errorResponse(id, 200, {
      code: INVALID_PARAMS,
      message: error.publicMessage,
      ...(param === undefined ? {} : { data: { param } }),
    });
  }
}

function errorResponse(
  id: string | number,
  status: number,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
): Response {
  return Response.json({ jsonrpc: "2.0", id, error }, { status });
}
