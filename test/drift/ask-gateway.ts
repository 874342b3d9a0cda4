// What the gateway does with a shape of a client: found by sending it to a gateway in front of the simulator.

import { INBOUND_WIRES, OUTBOUND_WIRES, usageOf } from "@postern/wires";
import { isObject } from "../../src/base/json.ts";
import {
  callApi,
  type Harness,
  type Json,
  minimalBody,
  modelOn,
  type Wire,
} from "../translation/support/harness.ts";
import type { CallerApi, Endpoint, ReceivedEvent, SentShape } from "./surface.ts";

/** `absent` is an endpoint that the gateway does not serve. */
export type Verdict = "pass" | "translate" | "drop" | "refuse" | "serve" | "absent";

export interface Answer {
  readonly verdict: Verdict;
  /** The message of a refusal. */
  readonly message?: string;
}

/** A string of a program that a request may have. */
export interface RequestString {
  readonly kind: "beta" | "header" | "type" | "model";
  readonly text: string;
}

/** Where each API's calls are translated to. */
const OTHER_WIRE: Readonly<Record<CallerApi, Wire>> = {
  chat: "messages",
  responses: "messages",
  messages: "responses",
  gemini: "messages",
};

export function askOwnWire(harness: Harness, shape: SentShape): Promise<Answer> {
  return ask(harness, shape, shape.api);
}

export function askOtherWire(harness: Harness, shape: SentShape): Promise<Answer> {
  return ask(harness, shape, OTHER_WIRE[shape.api]);
}

async function ask(harness: Harness, { api, fields }: SentShape, wire: Wire): Promise<Answer> {
  const before = harness.upstreamRequests.length;
  const { status, headers, json } =
    api === "gemini"
      ? await callGoogle(harness, modelOn(wire), fields)
      : await callApi(harness, api, minimalBody(api, wire, "hi", fields));
  const sent = harness.upstreamRequests[before]?.body;
  // The simulator checks the samples, which are not all sensible, as strictly as a provider.
  if (sent === undefined)
    return status < 400
      ? { verdict: "translate" }
      : { verdict: "refuse", message: messageOf(json) };
  const names = Object.keys(fields);
  const dropped = headers.get("x-postern-dropped")?.split(", ") ?? [];
  if (dropped.some((path) => names.some((name) => path.startsWith(name))))
    return { verdict: "drop" };
  const isSame = names.every((name) => JSON.stringify(sent[name]) === JSON.stringify(fields[name]));
  return { verdict: isSame && wire === api ? "pass" : "translate" };
}

async function callGoogle({ gateway, account }: Harness, model: string, fields: Json) {
  const contents = [{ role: "user", parts: [{ text: "hi" }] }];
  const response = await fetch(`${gateway.url}/v1beta/models/${model}:generateContent`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({ contents, ...fields }),
  });
  // Safe: the gateway responds with JSON objects.
  const json = (await response.json()) as Json;
  return { status: response.status, headers: response.headers, json };
}

function messageOf({ error }: Json): string {
  return isObject(error) ? String(error["message"]).split("\n", 1).join() : "no message";
}

/** An event is passed on its own wire; another one gets what its reader makes of it. */
export function askReader({ api, type, event }: ReceivedEvent): Answer {
  const origin = { provider: "any", model: "any" };
  const reader = OUTBOUND_WIRES[api].createStreamReader({
    origin,
    readUsage: (reply) => usageOf(api, reply, "any"),
  });
  const writer = INBOUND_WIRES[api === "messages" ? "responses" : "messages"].createStreamWriter({
    id: "id_1",
    model: "any",
    createdSeconds: 0,
    request: INBOUND_WIRES.chat.readRequest({
      model: "any",
      messages: [{ role: "user", content: "hi" }],
    }),
  });
  try {
    const events = reader.push({ name: type, data: JSON.stringify(event), json: event });
    const written = events.map((one) => writer.push(one)).join("");
    return { verdict: written === "" ? "drop" : "translate" };
  } catch (error) {
    return { verdict: "refuse", message: error instanceof Error ? error.message : String(error) };
  }
}

/** A beta is a value of `anthropic-beta`, a type one of a tool or of an edit of the context. */
export async function askString(harness: Harness, { kind, text }: RequestString): Promise<Answer> {
  if (kind === "model") {
    const response = await fetch(`${harness.gateway.url}/v1/models/openai/${text}`);
    await response.text();
    return { verdict: response.status === 200 ? "serve" : "absent" };
  }
  if (kind === "type") {
    const fields =
      text.startsWith("clear_") || text.startsWith("compact_")
        ? { context_management: { edits: [{ type: text }] } }
        : { tools: [{ type: text, name: text.replace(/_\d{8}$/, "") }] };
    return askOwnWire(harness, { api: "messages", name: text, fields, value: fields });
  }
  const name = kind === "beta" ? "anthropic-beta" : text;
  const before = harness.upstreamRequests.length;
  const response = await fetch(`${harness.gateway.url}/v1/messages`, {
    method: "POST",
    headers: { ...harness.account.headers, [name]: kind === "beta" ? text : "1" },
    body: JSON.stringify(minimalBody("messages", "messages", "hi")),
  });
  // The body must be read, or the connection stays open.
  const body = (await response.json()) as Json;
  if (response.status !== 200) return { verdict: "refuse", message: messageOf(body) };
  const sent = harness.upstreamRequests[before]?.headers.get(name);
  return { verdict: sent?.includes(kind === "beta" ? text : "1") === true ? "pass" : "drop" };
}

/** Whether the published description of the gateway has the endpoint. */
export function askDescription(paths: Json, { method, path }: Endpoint): Answer {
  const isServed = Object.entries(paths).some(
    ([template, operations]) =>
      isObject(operations) &&
      method.toLowerCase() in operations &&
      new RegExp(`^${template.replaceAll(/\{[^}]*\}/g, "[^/]+")}$`).test(path),
  );
  return { verdict: isServed ? "serve" : "absent" };
}
