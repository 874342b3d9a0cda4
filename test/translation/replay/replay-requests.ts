// Sends recorded requests that a provider accepted to models of other providers, as a caller does who changes only `model`.
// The simulator answers, so a 400 is the gateway's refusal.

import { arrayIn, isObject } from "../../../src/base/json.ts";
import { registerAccount, type TestAccount } from "../../support/gateway.ts";
import {
  CALLER_APIS,
  type CallerApi,
  errorParam,
  type Harness,
  type Json,
  modelOn,
  requestOf,
} from "../support/harness.ts";
import { type AcceptedRequest, parseJson } from "./accepted-requests.ts";
import { isAboutAccount, refusedTool } from "./refusals.ts";

/** One model for each wire, and a second one where the newest models take fewer parameters. */
const TARGETS = {
  "chat (compatible server)": modelOn("chat"),
  "responses (openai/gpt-5.5)": "openai/gpt-5.5",
  "messages (anthropic/claude-sonnet-4-5)": "anthropic/claude-sonnet-4-5",
  "messages (anthropic/claude-opus-5-5)": "anthropic/claude-opus-5-5",
  "gemini (gemini-3.1-flash)": modelOn("gemini"),
  "converse (claude-haiku-4-5)": "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
} as const;
export type TargetName = keyof typeof TARGETS;
export const TARGET_PROVIDERS = ["openai", "anthropic", "bedrock"] as const;
/** The providers in whose accounts the requests were recorded. */
const RECORDED_PROVIDERS = ["openai", "anthropic"] as const;

export interface PairResult {
  readonly api: CallerApi;
  readonly target: TargetName;
  answered: number;
  /** How often a request was refused, by the field and the reason. */
  readonly refusals: Map<string, number>;
  /** The same for requests that name an object of the account with which they were recorded. */
  readonly objectRefusals: Map<string, number>;
  /** How many of both are for a tool that runs at one provider, by its name. */
  readonly tools: Map<string, number>;
  /** How often a field was dropped, by its path without indices. */
  readonly dropped: Map<string, number>;
  /** Of these, how many are answered for an account with its own key of the provider. */
  ownKeyAnswered: number;
}

const CONCURRENCY = 8;

interface ReplayContext {
  readonly harness: Harness;
  readonly ownKeyAccount: TestAccount;
  /** Requests that name an object of the account with which they were recorded. */
  readonly objectRequests: Set<AcceptedRequest>;
}

export async function replayRequests(
  harness: Harness,
  requests: readonly AcceptedRequest[],
): Promise<readonly PairResult[]> {
  const context: ReplayContext = {
    harness,
    ownKeyAccount: await accountWithOwnKeys(harness),
    objectRequests: new Set(),
  };
  const results = CALLER_APIS.flatMap((api) =>
    Object.keys(TARGETS).map((target): PairResult => ({
      api,
      target: target as TargetName, // Safe because these are the keys of the table.
      answered: 0,
      refusals: new Map(),
      objectRefusals: new Map(),
      tools: new Map(),
      dropped: new Map(),
      ownKeyAnswered: 0,
    })),
  );
  // A provider's own API decides whether a request names an object of an account, so it is asked first.
  for (const isOwn of [true, false]) {
    const jobs = results
      .filter((result) => isOwnApi(result) === isOwn)
      .flatMap((result) =>
        requests.filter(({ api }) => api === result.api).map((request) => ({ result, request })),
      );
    const queue = jobs.values();
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (const { result, request } of queue) await replayOne(context, result, request);
      }),
    );
  }
  return results;
}

/** Whether the model's provider has the API of the request. */
export function isOwnApi({ api, target }: Pick<PairResult, "api" | "target">): boolean {
  return api !== "chat" && target.startsWith(`${api} `);
}

async function accountWithOwnKeys({ gateway }: Harness): Promise<TestAccount> {
  const account = await registerAccount(gateway);
  for (const provider of RECORDED_PROVIDERS) {
    const response = await fetch(`${gateway.url}/v1/provider-keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ provider, api_key: `sk-own-${provider}-0123456789abcdef` }),
    });
    if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
  }
  return account;
}

async function replayOne(
  context: ReplayContext,
  result: PairResult,
  request: AcceptedRequest,
): Promise<void> {
  const { api, body, previous } = request;
  const { account } = context.harness;
  const send = (sender: TestAccount, wanted: Json): Promise<Response> => {
    const sent = requestOf(api, bodyFor(wanted, result.target));
    return fetch(context.harness.gateway.url + sent.path, {
      method: "POST",
      headers: sender.headers,
      body: JSON.stringify(sent.body),
    });
  };
  const sent =
    previous === undefined ? body : continued(body, await send(account, firstTurn(previous)));
  const response = await send(account, await sent);
  const text = await response.text();
  if (response.status !== 200) {
    const reason = refusalReason(response.status, text);
    const tool = refusedTool(body, paramOf(text));
    if (tool !== undefined) count(result.tools, tool);
    if (isOwnApi(result) && isAboutAccount(reason)) context.objectRequests.add(request);
    const namesObject = context.objectRequests.has(request);
    count(namesObject ? result.objectRefusals : result.refusals, reason);
    if (!namesObject || !isOwnApi(result)) return;
    const own = await send(context.ownKeyAccount, body);
    await own.body?.cancel();
    if (own.status === 200) result.ownKeyAnswered += 1;
    return;
  }
  result.answered += 1;
  const dropped = response.headers.get("x-postern-dropped")?.split(", ") ?? [];
  for (const path of new Set(dropped.map(withoutIndices))) count(result.dropped, path);
}

// Routing preferences name the hosts of another gateway.
function bodyFor(body: Json, target: TargetName): Json {
  const { provider: _provider, models: _models, ...sent } = body;
  return { ...sent, model: TARGETS[target] };
}

/** Lets the simulator call the tool that the recorded reply called. */
function firstTurn({ input, ...body }: Json): Json {
  const items = typeof input === "string" ? [{ role: "user", content: input }] : arrayIn(input);
  return { ...body, stream: false, input: [...items, { role: "user", content: "Use the tool." }] };
}

/** The next turn, with the ids of the reply in place of the recorded ones. */
async function continued(body: Json, response: Response): Promise<Json> {
  const reply = parseJson(await response.text()) ?? {};
  const calls = arrayIn(reply["output"]).flatMap((item) =>
    isObject(item) && item["type"] === "function_call" ? [item["call_id"]] : [],
  );
  const input = arrayIn(body["input"]).map((item) =>
    isObject(item) && item["type"] === "function_call_output"
      ? { ...item, call_id: calls.shift() ?? item["call_id"] }
      : item,
  );
  return { ...body, previous_response_id: reply["id"], input };
}

/** The field and the message, without what differs between requests. */
function refusalReason(status: number, text: string): string {
  const json = parseJson(text) ?? {};
  const { error } = json;
  const { message = "" } = isObject(error) ? error : {};
  const param = errorParam(json);
  const said = String(message)
    // Errors of the Messages API begin with the path.
    .replace(/^[\w.]+: (?:Extra inputs are not permitted\n)?/, "")
    .replace(/ is not supported with \S+\./, ":")
    .replaceAll(/`[^`]*`|"[^"]*"/g, "…")
    .split(/ (?:Remove it|Change it)/)[0];
  return `${status} ${withoutIndices(typeof param === "string" ? param : "")}: ${said?.slice(0, 160)}`;
}

function paramOf(text: string): string {
  const param = errorParam(parseJson(text) ?? {});
  return typeof param === "string" ? param : "";
}

function withoutIndices(path: string): string {
  return path.replaceAll(/\[\d+\]/g, "[]");
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
