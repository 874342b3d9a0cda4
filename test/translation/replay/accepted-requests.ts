// Recorded requests that a provider accepted, each with the turn that it continues, if that is recorded, too.

import { isObject } from "../../../src/base/json.ts";
import { type Recording, recordings } from "../../support/recordings/recordings.ts";
import type { Api, Json } from "../support/harness.ts";

export interface AcceptedRequest {
  readonly api: Api;
  readonly body: Json;
  /** The request whose reply `previous_response_id` names. */
  readonly previous?: Json | undefined;
}

const API_OF_ENDPOINT: ReadonlyMap<string, Api> = new Map([
  ["openai.chat", "chat"],
  ["openai.responses", "responses"],
  ["anthropic.messages", "messages"],
]);

/** The recorded requests of the three APIs that a provider answered. */
export function acceptedRequests(folder?: string): readonly AcceptedRequest[] {
  const found: AcceptedRequest[] = [];
  const seen = new Set<string>();
  const byReplyId = new Map<unknown, Json>();
  for (const recording of recordings(undefined, folder)) {
    const api = API_OF_ENDPOINT.get(recording.endpoint);
    const { requestBody, status } = recording;
    if (api === undefined || status !== 200 || requestBody === undefined) continue;
    const body = parseJson(requestBody);
    if (body === undefined || !isRequest(api, body)) continue;
    const previous = byReplyId.get(body["previous_response_id"]);
    const replyId = api === "responses" ? replyIdOf(recording) : undefined;
    if (replyId !== undefined) byReplyId.set(replyId, body);
    if (seen.has(requestBody)) continue;
    seen.add(requestBody);
    found.push({ api, body, previous });
  }
  return found;
}

const decoder = new TextDecoder();

function replyIdOf({ responseBody }: Recording): string | undefined {
  return /"id":\s*"(resp_[^"]+)"/.exec(decoder.decode(responseBody))?.[1];
}

function isRequest(api: Api, body: Json): boolean {
  return api === "responses" ? body["input"] !== undefined : Array.isArray(body["messages"]);
}

export function parseJson(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
