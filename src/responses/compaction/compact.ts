// Compacts a conversation: the provider does it where it can, otherwise its model writes a summary, which the reply returns
// encrypted. The call is held, priced and settled like every other one.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import { parseJsonBody } from "../../http/request/body.ts";
import type { CallInput, StatefulCall } from "../../inference/lifecycle/call.ts";
import type { PrepareCall } from "../../inference/lifecycle/parse-call.ts";
import { sharedCredentialsFault } from "../../inference/lifecycle/shared-credentials.ts";
import { parseRequest } from "../../inference/request/parse-request.ts";
import type { TransportPlan } from "../../inference/translate/transport-plan.ts";
import { outputItems, publicItems } from "../items.ts";
import { sealSummary } from "./compaction-item.ts";

/** Older user messages than these are only in the summary. */
const USER_MESSAGES_MAX_CHARACTERS = 80_000;

const SUMMARY_PROMPT = `Stop working on the task now and write a summary of this conversation for another assistant that will continue it without seeing it. Write down:
- what the user wants, with all constraints and preferences that still apply;
- what is done, and the decisions that were made with their reasons;
- facts that are needed to continue: names, paths, identifiers, values, commands, results and errors;
- what remains to be done, in order.
Reply with the summary alone. Do not call tools.`;

/** Fields that are sent on; others have no use for a summary. */
const KEPT_FIELDS = [
  "model",
  "models",
  "provider",
  "instructions",
  "tools",
  "previous_response_id",
  "prompt_cache_key",
  "reasoning",
  "service_tier",
] as const;

export interface CompactDeps {
  readonly key: DerivedKey;
  readonly infer: (input: CallInput) => Promise<Response>;
  readonly prepareCall: PrepareCall;
  /** The user messages of a stored conversation. */
  readonly readPastItems: (input: CallInput, previousId: string) => Promise<readonly JsonObject[]>;
}

export async function compact(deps: CompactDeps, input: CallInput): Promise<Response> {
  const body = parseJsonBody(input.text);
  if (!isObject(body)) throw invalid(undefined, "The body must be a JSON object.");
  if (body["stream"] === true)
    throw invalid("stream", "Compactions are not streamed. Remove `stream`.");
  const items = inputItemsOf(body);
  const { previous_response_id: previousId } = body;
  const past = typeof previousId === "string" ? await deps.readPastItems(input, previousId) : [];
  const id = newId("resp", input.now);
  const compactedText = (text: string): string | undefined => {
    const reply = parseObject(text);
    if (isNativeReply(reply)) return JSON.stringify(reply);
    const summary = reply === undefined ? "" : textOf(reply);
    if (reply === undefined || summary === "") return undefined;
    const sealed = sealSummary(deps.key, input.caller.accountId, summary);
    const kept = publicItems(userMessages([...past, ...items]), id);
    return JSON.stringify(
      compactionOf({ id, now: input.now, kept, sealed, usage: reply["usage"] }),
    );
  };
  // A receipt and the caller get the same text, though each sealing is another.
  let compacted: string | undefined;
  const whole = (text: string): string => (compacted ??= compactedText(text)) ?? text;
  const summaryInput = {
    ...input,
    text: JSON.stringify(summaryRequest(body, items)),
    sentForm: { whole, stream: unstreamed },
  };
  const response = await deps.infer(
    wantsSummary(body)
      ? summaryInput
      : { ...summaryInput, statefulCall: await nativeCall(deps.prepareCall, summaryInput) },
  );
  const sent = await response.text();
  compacted ??= compactedText(sent);
  if (compacted === undefined)
    throw new Fault("upstream_error", "a compaction without a summary", {
      message: "The model returned no summary. Compact again, or use another model.",
    });
  return new Response(compacted, { headers: withoutLength(response.headers) });
}

function unstreamed(): never {
  throw new Error("compactions are not streamed");
}

interface Compaction {
  readonly id: string;
  readonly now: number;
  readonly kept: readonly unknown[];
  readonly sealed: string;
  readonly usage: unknown;
}

function compactionOf({ id, now, kept, sealed, usage }: Compaction): JsonObject {
  return {
    id,
    object: "response.compaction",
    created_at: Math.floor(now / 1_000),
    output: [
      ...kept,
      {
        id: `cmp_${id.slice(id.indexOf("_") + 1)}`,
        type: "compaction",
        encrypted_content: sealed,
      },
    ],
    usage,
  };
}

function withoutLength(sent: Headers): Headers {
  const headers = new Headers(sent);
  headers.delete("content-length");
  return headers;
}

/** `postern: {"compaction": "summary"}` asks for a summary that any model can continue from. */
function wantsSummary({ postern }: JsonObject): boolean {
  const compaction = isObject(postern) ? (postern["compaction"] ?? undefined) : undefined;
  if (compaction === undefined || compaction === "summary") return compaction === "summary";
  throw invalid("postern.compaction", '`postern.compaction` must be "summary", or left out.');
}

function inputItemsOf({ input, previous_response_id: previousId }: JsonObject): JsonObject[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  if (Array.isArray(input)) return input.filter(isObject);
  if ((input ?? undefined) !== undefined)
    throw invalid("input", "`input` must be a string or an array.");
  if (typeof previousId !== "string")
    throw invalid("input", "`input` or `previous_response_id` is required.");
  return [];
}

function summaryRequest(body: JsonObject, items: readonly JsonObject[]): JsonObject {
  const kept = KEPT_FIELDS.flatMap((name) =>
    (body[name] ?? undefined) === undefined ? [] : [[name, body[name]] as const],
  );
  const { tools, postern } = body;
  const { compaction: _compaction, ...options } = isObject(postern) ? postern : {};
  return {
    ...Object.fromEntries(kept),
    postern: options,
    // Providers require the definitions of tools that were called, and cache the prompt together with them.
    ...(Array.isArray(tools) && tools.length > 0 ? { tool_choice: "none" } : {}),
    store: false,
    input: [...items, { type: "message", role: "user", content: SUMMARY_PROMPT }],
  };
}

function textOf(reply: JsonObject): string {
  return outputItems(reply)
    .filter(({ type }) => type === "message")
    .flatMap(({ content }) => (Array.isArray(content) ? content.filter(isObject) : []))
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .join("")
    .trim();
}

/** The newest messages of the user. */
function userMessages(items: readonly JsonObject[]): readonly JsonObject[] {
  const kept: JsonObject[] = [];
  let characters = 0;
  for (const item of items.toReversed()) {
    if ((item["type"] ?? "message") !== "message" || item["role"] !== "user") continue;
    characters += JSON.stringify(item).length;
    if (characters > USER_MESSAGES_MAX_CHARACTERS) break;
    kept.push({ status: "completed", ...item, type: "message" });
  }
  return kept.toReversed();
}

// Compaction by the provider itself: the request for a summary becomes a request to the provider's own endpoint where there is
// one. The provider's item is readable only there; the provider passes it on like every other item.

/** The fields of the endpoint that the gateway's own request can have. */
const NATIVE_FIELDS = [
  "model",
  "instructions",
  "previous_response_id",
  "prompt_cache_key",
] as const;

/** The call for a summary, whose candidates compact natively if they can. */
async function nativeCall(prepareCall: PrepareCall, input: CallInput): Promise<StatefulCall> {
  const request = parseRequest("responses", input.text);
  const prepared = await prepareCall(request, input);
  if (prepared instanceof Response) throw new Error("a compaction runs in the background");
  const call: StatefulCall = prepared ?? {
    request,
    sharedCredentialsFault: () => sharedCredentialsFault(request),
    requestFor: () => ({ request }),
    storeReply: () => undefined,
  };
  return {
    ...call,
    requestFor: (candidate) => {
      const sent = call.requestFor(candidate);
      if (candidate.credential.provider.compactsResponses !== true) return sent;
      return {
        ...sent,
        adaptPlan: (original) => {
          const plan = sent.adaptPlan?.(original) ?? original;
          return plan.isTranslated ? plan : nativePlan(plan);
        },
      };
    },
  };
}

function nativePlan(plan: TransportPlan): TransportPlan {
  const body = parseObject(plan.body) ?? {};
  const { input } = body;
  // The last item asks for the summary.
  const items = Array.isArray(input) ? input.slice(0, -1) : [];
  const kept = NATIVE_FIELDS.flatMap((name) =>
    (body[name] ?? undefined) === undefined ? [] : [[name, body[name]] as const],
  );
  return {
    ...plan,
    path: "/compact",
    body: JSON.stringify({ ...Object.fromEntries(kept), input: items }),
    withoutEndpoint: plan,
  };
}

function isNativeReply(reply: unknown): reply is JsonObject {
  return isObject(reply) && reply["object"] === "response.compaction";
}
