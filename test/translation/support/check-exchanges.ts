// Checks everything that passed through the gateway, at the end of each test file of this folder.

import { expect } from "bun:test";
import { sseEvents } from "../../../packages/wires/test/stream-helpers.ts";
import { validateChatStream } from "../../../packages/wires/test/validate-chat-stream.ts";
import { validateMessagesStream } from "../../../packages/wires/test/validate-messages-stream.ts";
import { validateResponsesStream } from "../../../packages/wires/test/validate-responses-stream.ts";
import { expectSettledLedger } from "../../inference/support/harness.ts";
import {
  APIS,
  type ClientExchange,
  type Json,
  modelOn,
  recordedExchanges,
  type Harness,
  WIRES,
} from "./harness.ts";
import { hasSpecs, loadSpecs, type OpenApiSpecs } from "./openapi-specs.ts";

export interface CheckOptions {
  /** Whether to skip this exchange. */
  readonly shouldSkip?: (exchange: ClientExchange) => boolean;
}

export async function checkExchanges(
  harness: Harness,
  title: string,
  expected: CheckOptions = {},
): Promise<void> {
  await recordedExchanges();
  const specs = hasSpecs ? loadSpecs() : undefined;
  const problems: string[] = [];
  let streams = 0;
  let replies = 0;
  for (const exchange of harness.exchanges) {
    if (expected.shouldSkip?.(exchange) === true) continue;
    const isStream = exchange.headers.get("content-type")?.includes("event-stream") === true;
    if (isStream) streams += 1;
    else replies += 1;
    // A passthrough reply is the provider's own, so only its event order is checked.
    const validators = exchange.request["model"] === modelOn(exchange.api) ? undefined : specs;
    const found = isStream ? checkStream(exchange, validators) : checkReply(exchange, validators);
    if (found.length > 0)
      problems.push(
        `${exchange.api} of ${String(exchange.request["model"])}: ${found.slice(0, 3).join("; ")}\n  ${exchange.text.slice(0, 300)}`,
      );
  }
  const requests = harness.upstreamRequests.filter((one) => one.wire !== "count");
  for (const { wire, body, api } of requests) {
    // A passthrough request is the caller's own.
    if (wire === "count" || wire === api) continue;
    const found = specs?.request[wire](body) ?? [];
    if (found.length > 0)
      problems.push(
        `request on ${wire}: ${found.slice(0, 6).join("; ")}\n  ${JSON.stringify(body).slice(0, 700)}`,
      );
  }
  const byWire = WIRES.map(
    (wire) => `${wire} ${requests.filter((one) => one.wire === wire).length}`,
  );
  const byApi = APIS.map(
    (api) => `${api} ${harness.exchanges.filter((one) => one.api === api).length}`,
  );
  console.log(
    `» ${title}: ${streams} streams and ${replies} replies checked (${byApi.join(", ")}), ${requests.length} requests to providers (${byWire.join(", ")})`,
  );
  await expectSettledLedger(harness.gateway.server.db);
  expect([...new Set(problems)].slice(0, 8)).toEqual([]);
}

function checkStream(exchange: ClientExchange, specs: OpenApiSpecs | undefined): readonly string[] {
  const { api, text, request } = exchange;
  const events = sseEvents(text);
  const grammar = {
    chat: () => validateChatStream(events, { usage: wantsUsage(request) }),
    responses: () => validateResponsesStream(events),
    messages: () => validateMessagesStream(events),
  };
  const problems = [...grammar[api]()];
  for (const { name, data } of events) {
    if (data === "[DONE]" || name === "ping" || name === "error" || data.startsWith('{"error"'))
      continue;
    problems.push(...(specs?.event[api](JSON.parse(data)) ?? []));
  }
  return problems;
}

function checkReply(exchange: ClientExchange, specs: OpenApiSpecs | undefined): readonly string[] {
  const { api, status, text } = exchange;
  const body = JSON.parse(text) as Json;
  if (status === 200) return specs?.reply[api](body) ?? [];
  const error = body["error"] as Json | undefined;
  const problems = ["message", "type", "code"].filter(
    (field) => typeof error?.[field] !== "string",
  );
  if (api === "messages" && (body["type"] !== "error" || typeof body["request_id"] !== "string"))
    problems.push("the envelope of Messages");
  return problems.map((field) => `error without ${field}`);
}

function wantsUsage(request: Json): boolean {
  const options = request["stream_options"] as Json | undefined;
  return options?.["include_usage"] === true;
}
