// Replays recorded replies over each API: a provider of each wire sends the recorded bytes.

import { isObject } from "../../../src/base/json.ts";
import {
  type Recording,
  type RecordedWire,
  recordings,
  replayBytes,
} from "../../support/recordings/recordings.ts";
import {
  CALLER_APIS,
  callApi,
  type CallerApi,
  type Harness,
  type Json,
  modelOn,
} from "../support/harness.ts";

export interface ReplyResult {
  readonly api: CallerApi;
  readonly wire: RecordedWire;
  answered: number;
  /** On the wire's own API: equal to the recorded bytes except for the cost. */
  unchanged: number;
  /** The cost is that of the same reply on the wire's own API, or on the first one that reported a cost. */
  equalCosts: number;
  /** Replies with a cost on this and on another API. */
  costs: number;
  /** Replies that ended with an error, by its message. */
  readonly failures: Map<string, number>;
}

const decoder = new TextDecoder();
const COST = /"cost":(\d+(?:\.\d+)?(?:e-\d+)?),?/;

export async function replayReplies(
  harness: Harness,
  folder: string | undefined,
  every = 1,
): Promise<readonly ReplyResult[]> {
  const results: ReplyResult[] = [];
  let count = 0;
  for (const recording of recordings(undefined, folder)) {
    const { wire, status, bodyFormat, responseBody } = recording;
    if (wire === undefined || status !== 200 || bodyFormat === "other") continue;
    if (responseBody.length === 0 || !isWholeReply(recording)) continue;
    count += 1;
    if (count % every !== 0) continue;
    harness.providerResponse = () =>
      new Response(new Uint8Array(replayBytes(recording)), {
        headers: { "content-type": contentType(recording) },
      });
    let expected: string | undefined;
    for (const api of CALLER_APIS.toSorted((left) => (left === wire ? -1 : 1))) {
      const result = resultOf(results, api, wire);
      const cost = await replayOne(harness, recording, result);
      if (cost === undefined) continue;
      expected ??= cost;
      result.costs += 1;
      if (cost === expected) result.equalCosts += 1;
    }
  }
  harness.providerResponse = undefined;
  return results;
}

/** The cost in the reply, if there is one. */
async function replayOne(
  harness: Harness,
  recording: Recording,
  result: ReplyResult,
): Promise<string | undefined> {
  const { api, wire } = result;
  const reply = await callApi(harness, api, {
    ...bodyFor(api),
    model: modelOn(wire),
    ...(recording.stream ? { stream: true } : {}),
    ...(recording.stream && api === "chat" ? { stream_options: { include_usage: true } } : {}),
  });
  const error = errorIn(reply.status, reply.text);
  if (error !== undefined) {
    result.failures.set(error, (result.failures.get(error) ?? 0) + 1);
    return undefined;
  }
  result.answered += 1;
  if (api === wire && withoutCost(reply.text) === withoutCost(decode(recording)))
    result.unchanged += 1;
  return COST.exec(reply.text)?.[1];
}

function decode(recording: Recording): string {
  return decoder.decode(replayBytes(recording));
}

function withoutCost(text: string): string {
  return text.replace(COST, "").trim();
}

function bodyFor(api: CallerApi): Json {
  if (api === "gemini")
    return {
      contents: [{ role: "user", parts: [{ text: "hello" }] }],
      generationConfig: { maxOutputTokens: 9_000 },
    };
  if (api === "responses") return { input: "hello", max_output_tokens: 9_000 };
  return { messages: [{ role: "user", content: "hello" }], max_tokens: 9_000 };
}

function errorIn(status: number, text: string): string | undefined {
  const found = /"error":\{[^}]*?"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
  const isStreamError = /(?:^|\n)event: error\n|\ndata: \{"error":|"type":"response\.failed"/.test(
    text,
  );
  return status === 200 && !isStreamError ? undefined : `${status} ${found?.slice(0, 120) ?? ""}`;
}

const REPLY_FIELDS = {
  chat: "choices",
  responses: "output",
  messages: "content",
  gemini: "candidates",
  converse: "output",
} as const satisfies Record<RecordedWire, string>;

/** Not a completion of the older form, a token count, or another object. */
function isWholeReply({ stream, wire, responseBody, requestBody }: Recording): boolean {
  if ((requestBody ?? "").startsWith('{"prompt"') || wire === undefined) return false;
  if (stream) return !decoder.decode(responseBody).includes('"text_completion"');
  const body: unknown = JSON.parse(decoder.decode(responseBody));
  return isObject(body) && body[REPLY_FIELDS[wire]] !== undefined;
}

function contentType({ stream, wire }: Recording): string {
  if (!stream) return "application/json";
  return wire === "converse" ? "application/vnd.amazon.eventstream" : "text/event-stream";
}

function resultOf(results: ReplyResult[], api: CallerApi, wire: RecordedWire): ReplyResult {
  const found = results.find((one) => one.api === api && one.wire === wire);
  if (found !== undefined) return found;
  const created = {
    api,
    wire,
    answered: 0,
    unchanged: 0,
    equalCosts: 0,
    costs: 0,
    failures: new Map<string, number>(),
  };
  results.push(created);
  return created;
}
