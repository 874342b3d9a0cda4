// Recorded requests that a provider accepted, each with the turn that it continues, if that is recorded, too.

import { isObject } from "../../../src/base/json.ts";
import { type Recording, recordings } from "../../support/recordings/recordings.ts";
import type { CallerApi, Json } from "../support/harness.ts";

export interface AcceptedRequest {
  readonly api: CallerApi;
  readonly body: Json;
  /** The request whose reply `previous_response_id` names. */
  readonly previous?: Json | undefined;
}

const API_OF_ENDPOINT: ReadonlyMap<string, CallerApi> = new Map([
  ["gemini.generateContent", "gemini"],
  ["gemini.streamGenerateContent", "gemini"],
  ["openai.chat", "chat"],
  ["openai.responses", "responses"],
  ["anthropic.messages", "messages"],
]);

/** The recorded requests of the APIs that a provider answered. */
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

function isRequest(api: CallerApi, body: Json): boolean {
  if (api === "responses") return body["input"] !== undefined;
  return Array.isArray(body[api === "gemini" ? "contents" : "messages"]);
}

export function parseJson(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
