// Sends recorded requests that a provider accepted to models of other providers, as a caller does who changes only `model`.
// The simulator answers, so a 400 is the gateway's refusal.

import { isObject } from "../../../src/base/json.ts";
import { recordings } from "../../support/recordings/recordings.ts";
import { type Api, APIS, type Harness, type Json, modelOn } from "../support/harness.ts";

/** One model for each wire, and a second one where the newest models take fewer parameters. */
export const TARGETS = {
  "chat (compatible server)": modelOn("chat"),
  "responses (openai/gpt-5.5)": "openai/gpt-5.5",
  "messages (anthropic/claude-sonnet-4-5)": "anthropic/claude-sonnet-4-5",
  "messages (anthropic/claude-opus-5-5)": "anthropic/claude-opus-5-5",
  "gemini (gemini-3.1-flash)": modelOn("gemini"),
  "converse (claude-haiku-4-5)": "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
} as const;
export type TargetName = keyof typeof TARGETS;
export const TARGET_PROVIDERS = ["openai", "anthropic", "bedrock"] as const;

export interface PairResult {
  readonly api: Api;
  readonly target: TargetName;
  answered: number;
  /** How often a request was refused, by the field and the reason. */
  readonly refusals: Map<string, number>;
  /** How often a field was dropped, by its path without indices. */
  readonly dropped: Map<string, number>;
}

const API_OF_ENDPOINT: ReadonlyMap<string, Api> = new Map([
  ["openai.chat", "chat"],
  ["openai.responses", "responses"],
  ["anthropic.messages", "messages"],
]);
const API_PATHS: Readonly<Record<Api, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};
const CONCURRENCY = 8;

export interface AcceptedRequest {
  readonly api: Api;
  readonly body: Json;
}

/** The recorded requests of the three APIs that a provider answered. */
export function acceptedRequests(folder?: string): readonly AcceptedRequest[] {
  const found: AcceptedRequest[] = [];
  const seen = new Set<string>();
  for (const recording of recordings(undefined, folder)) {
    const api = API_OF_ENDPOINT.get(recording.endpoint);
    const { requestBody, status } = recording;
    if (api === undefined || status !== 200 || requestBody === undefined) continue;
    const body = parse(requestBody);
    if (body === undefined || !isRequest(api, body) || seen.has(requestBody)) continue;
    seen.add(requestBody);
    found.push({ api, body });
  }
  return found;
}

export async function replayRequests(
  harness: Harness,
  requests: readonly AcceptedRequest[],
): Promise<readonly PairResult[]> {
  const results = APIS.flatMap((api) =>
    Object.keys(TARGETS).map((target): PairResult => ({
      api,
      target: target as TargetName, // Safe because these are the keys of the table.
      answered: 0,
      refusals: new Map(),
      dropped: new Map(),
    })),
  );
  const jobs = results.flatMap((result) =>
    requests.filter(({ api }) => api === result.api).map((request) => ({ result, request })),
  );
  const queue = jobs.values();
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (const { result, request } of queue) await replayOne(harness, result, request);
    }),
  );
  return results;
}

async function replayOne(
  harness: Harness,
  result: PairResult,
  { api, body }: AcceptedRequest,
): Promise<void> {
  // Routing preferences name the hosts of another gateway.
  const { provider: _provider, models: _models, ...sent } = body;
  const response = await fetch(harness.gateway.url + API_PATHS[api], {
    method: "POST",
    headers: harness.account.headers,
    body: JSON.stringify({ ...sent, model: TARGETS[result.target] }),
  });
  const text = await response.text();
  if (response.status !== 200) {
    count(result.refusals, refusalReason(response.status, text));
    return;
  }
  result.answered += 1;
  const dropped = response.headers.get("x-postern-dropped")?.split(", ") ?? [];
  for (const path of new Set(dropped.map(withoutIndices))) count(result.dropped, path);
}

/** The field and the message, without what differs between requests. */
function refusalReason(status: number, text: string): string {
  const error = parse(text)?.["error"];
  const { message = "", param } = isObject(error) ? error : {};
  const said = String(message)
    .replace(/ is not supported with \S+\./, ":")
    .replaceAll(/`[^`]*`|"[^"]*"/g, "…")
    .split(/ (?:Remove it|Change it)/)[0];
  return `${status} ${withoutIndices(typeof param === "string" ? param : "")}: ${said?.slice(0, 160)}`;
}

function withoutIndices(path: string): string {
  return path.replaceAll(/\[\d+\]/g, "[]");
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function isRequest(api: Api, body: Json): boolean {
  return api === "responses" ? body["input"] !== undefined : Array.isArray(body["messages"]);
}

function parse(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
