// What a request may contain by number, on every API and path, and the CPU time that a large body can take.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { INBOUND_WIRES, OUTBOUND_WIRES } from "@postern/wires";
import { Fault } from "../../../src/base/fault.ts";
import { parseRequest } from "../../../src/inference/request/parse-request.ts";
import { call, textAt } from "../../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import type { Api } from "../support/harness.ts";

type Body = Readonly<Record<string, unknown>>;

const repeat = (count: number, value: unknown): readonly unknown[] =>
  Array.from({ length: count }, () => value);
const user = (content: unknown): Body => ({ role: "user", content });
const TEXT = { type: "text", text: "h" };
const chat = (messages: unknown, more: Body = {}): Body => ({
  model: "sim/echo",
  max_tokens: 9,
  messages,
  ...more,
});
const items = (input: unknown): Body => ({ model: "sim/echo", input });
const DOCUMENT = {
  type: "document",
  source: { type: "text", media_type: "text/plain", data: "a" },
};
const FILE = { type: "input_file", filename: "a.txt", file_data: "data:text/plain;base64,YQ==" };

const TOO_MANY: readonly (readonly [string, string, string | null, Body])[] = [
  ["/v1/chat/completions", "20000", "messages", chat(repeat(20_001, user("h")))],
  ["/v1/messages", "20000", "messages", chat(repeat(20_001, user("h")))],
  ["/v1/messages/count_tokens", "20000", "messages", chat(repeat(20_001, user("h")))],
  ["/v1/responses", "20000", "input", items(repeat(20_001, user("h")))],
  ["/v1/chat/completions", "parts", "messages", chat([user(repeat(20_001, TEXT))])],
  ["/v1/messages", "parts", "messages", chat(repeat(3, user(repeat(6_667, TEXT))))],
  [
    "/v1/messages",
    "parts",
    "messages",
    chat([user([{ type: "tool_result", tool_use_id: "a", content: repeat(20_001, TEXT) }])]),
  ],
  ["/v1/responses", "parts", "input", items([user(repeat(20_001, TEXT))])],
  ["/v1/messages", "documents", "messages", chat([user(repeat(10_001, DOCUMENT))])],
  ["/v1/responses", "documents", "input", items([user(repeat(10_001, FILE))])],
  [
    "/v1/chat/completions",
    "5000",
    "tools",
    chat([user("h")], { tools: repeat(5_001, { type: "function" }) }),
  ],
  [
    "/v1/chat/completions",
    "fields",
    null,
    chat(
      [user("h")],
      Object.fromEntries(Array.from({ length: 10_001 }, (_, index) => [`f${index}`, 1])),
    ),
  ],
  [
    "/v1/responses",
    "fields",
    null,
    items(
      [user("h")].concat({
        role: "user",
        content: "h",
        labels: Object.fromEntries(Array.from({ length: 10_001 }, (_, index) => [`f${index}`, 1])),
      } as never),
    ),
  ],
  ["/v1/chat/completions", "500000", null, chat([user("h")], { x: repeat(500_001, 1) })],
  ["/v1/embeddings", "500000", null, { model: "sim/embed", input: repeat(500_001, 1) }],
];

describe("limits by number", () => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway();
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  test.each(
    TOO_MANY.map(
      ([path, text, param, body], index) => [index, path, { text, param, body }] as const,
    ),
  )("case %d: POST %s", async (_, path, { text, param, body }) => {
    const refused = await call(gateway, `POST ${path}`, { key: account.key, body });
    expect(refused.status).toBe(400);
    expect(textAt(refused.body, "error.message")).toContain(text);
    if (param !== null) expect(textAt(refused.body, "error.message")).toContain(`\`${param}\` has`);
  });

  test("accepts what is within the limits", async () => {
    for (const body of [
      chat(repeat(2_000, user("h"))),
      { model: "sim/embed", input: repeat(2_000, 7) },
    ]) {
      const path = "input" in body ? "/v1/embeddings" : "/v1/chat/completions";
      const { status } = await call(gateway, `POST ${path}`, { key: account.key, body });
      expect([400, 413]).not.toContain(status);
    }
  });
});

const CPU_MS_PER_MB = 100;
const BYTES_PER_MB = 1_000_000;
const list = (count: number, value: string): string => Array(count).fill(value).join(",");
const within = (field: string): string =>
  `{"model":"acme/claude","max_tokens":9,"messages":[{"role":"user","content":"h"}],${field}}`;

test.each([
  ["numbers", within(`"x":[${list(15_000_000, "1")}]`)],
  ["objects", within(`"x":[${list(10_000_000, "{}")}]`)],
  ["members", within(`"x":{${list(5_000_000, '"a":1')}}`)],
  ["arrays", within(`"x":[${list(10_000_000, "[]")}]`)],
  ["texts", within(`"x":[${list(7_000_000, '"a"')}]`)],
  ["escaped quotes", within(`"x":"${'\\"'.repeat(12_000_000)}"`)],
  ["backslashes", within(`"x":"${"\\\\".repeat(12_000_000)}"`)],
])("a body of 24 to 31 MB of %s takes at most 100 ms of CPU per MB", (_, text) => {
  expect(cpuMs(() => tryParse("chat", text))).toBeLessThan(
    (text.length / BYTES_PER_MB) * CPU_MS_PER_MB,
  );
});

test.each([
  ["values", "chat", within(`"x":[${list(490_000, "1")}]`)],
  ["objects", "chat", within(`"x":[${list(240_000, "{}")}]`)],
  ["parts", "messages", JSON.stringify(chat([user(repeat(19_999, TEXT))]))],
  ["items", "responses", JSON.stringify(items(repeat(19_999, user("some text"))))],
] as const)("the most %s that are allowed take at most 100 ms of CPU per MB", (_, api, text) => {
  for (const wire of ["chat", "messages", "responses", "gemini", "converse"] as const) {
    if (wire === api) continue;
    const ms = Math.min(
      ...Array.from({ length: 3 }, () => cpuMs(() => translate(api, wire, text))),
    );
    expect([wire, ms < Math.max(1, text.length / BYTES_PER_MB) * CPU_MS_PER_MB]).toEqual([
      wire,
      true,
    ]);
  }
});

function tryParse(api: Api, text: string): void {
  try {
    parseRequest(api, text);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
  }
}

function translate(
  api: "chat" | "messages" | "responses",
  wire: keyof typeof OUTBOUND_WIRES,
  text: string,
): void {
  const { json } = parseRequest(api, text);
  const request = INBOUND_WIRES[api].readRequest(json);
  const target = { provider: "acme", model: "anthropic.claude-sonnet-4", maxOutputTokens: 1_000 };
  JSON.stringify(OUTBOUND_WIRES[wire].writeRequest(request, target).body);
}

function cpuMs(work: () => void): number {
  const start = process.cpuUsage();
  work();
  const { user: userMs, system } = process.cpuUsage(start);
  return (userMs + system) / 1_000;
}
