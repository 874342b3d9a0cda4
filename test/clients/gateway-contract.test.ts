// The published contract between Claude Code and gateways, row by row: "Gateway protocol reference" of its documentation, and
// the protocol that its own gateway serves (Claude Code 2.1.332). Rows that do not hold are listed below with a reason.

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import type { Json } from "../translation/support/harness.ts";
import { modelOn, startHarness } from "../translation/support/harness.ts";

const harness = await startHarness();
const { gateway, account } = harness;
afterAll(() => harness.stop());
afterEach(() => {
  harness.providerResponse = undefined;
});

const VERSION = "2023-06-01";
const BETAS = "claude-code-20250219, new-thing-2027-01-01,interleaved-thinking-2025-05-14";
const MODEL = modelOn("messages");
const USER: Json = { role: "user", content: "hi" };
const SCHEMA = { type: "object", properties: { a: { type: "string" } } };

interface Sent {
  readonly status: number;
  readonly json: Json;
  readonly response: Headers;
  readonly headers: Headers;
  readonly body: Json;
}

interface Call {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly fields?: Json;
  readonly model?: string;
}

async function send({
  path = "/v1/messages?beta=true",
  headers,
  fields,
  model,
}: Call): Promise<Sent> {
  const before = harness.upstreamRequests.length;
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers: { ...account.headers, "anthropic-version": VERSION, ...headers },
    body: JSON.stringify({ model: model ?? MODEL, max_tokens: 100, messages: [USER], ...fields }),
  });
  // Every reply of these calls is an object.
  const json = (await response.json()) as Json;
  const upstream = harness.upstreamRequests[before];
  return {
    status: response.status,
    json,
    response: response.headers,
    headers: upstream?.headers ?? new Headers(),
    body: upstream?.body ?? {},
  };
}

/** The fields reach the provider as they were sent. */
const forwards = (fields: Json) => async (): Promise<void> => {
  const { status, body } = await send({ fields });
  expect([status, body]).toEqual([200, expect.objectContaining(fields)]);
};

const forwardsHeader = (name: string, value: string) => async (): Promise<void> => {
  const { status, headers } = await send({ headers: { [name]: value } });
  expect([status, headers.get(name)]).toEqual([200, value]);
};

const accepts = (headers: Readonly<Record<string, string>>) => async (): Promise<void> => {
  expect((await send({ headers })).status).toBe(200);
};

/** The provider's error reaches the client with its status, type and message. */
const keepsError = (status: number, type: string, message: string) => async (): Promise<void> => {
  harness.providerResponse = () =>
    Response.json({ type: "error", error: { type, message } }, { status });
  const sent = await send({ fields: { messages: [{ role: "user", content: message }] } });
  expect([sent.status, sent.json["type"]]).toEqual([status, "error"]);
  expect(sent.json["error"]).toMatchObject({ type, message });
};

/** The gateway's own refusals have Anthropic's envelope. */
async function refusal(
  path: string,
  init: RequestInit,
): Promise<{ readonly status: number; readonly type: unknown; readonly headers: Headers }> {
  const response = await fetch(gateway.url + path, { method: "POST", ...init });
  const body = (await response.json()) as { type: unknown; error: Json };
  expect([body.type, typeof body.error["message"]]).toEqual(["error", "string"]);
  return { status: response.status, type: body.error["type"], headers: response.headers };
}

async function modelList(headers: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(`${gateway.url}/v1/models?limit=1000`, { headers, redirect: "manual" });
}

async function streamText(fields: Json, model = MODEL): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/messages?beta=true`, {
    method: "POST",
    headers: { ...account.headers, "anthropic-version": VERSION },
    body: JSON.stringify({ model, max_tokens: 100, messages: [USER], stream: true, ...fields }),
  });
  expect(response.headers.get("content-type")).toStartWith("text/event-stream");
  return response.text();
}

type Row = readonly [row: string, check: () => Promise<void> | void];

const ENDPOINTS: readonly Row[] = [
  [
    "POST /v1/messages is served",
    async () => expect((await send({ path: "/v1/messages" })).status).toBe(200),
  ],
  [
    "POST /v1/messages?beta=true is the same endpoint",
    async () => expect((await send({})).status).toBe(200),
  ],
  [
    "unknown query parameters of messages are ignored",
    async () => expect((await send({ path: "/v1/messages?beta=true&new=1" })).status).toBe(200),
  ],
  [
    "POST /v1/messages/count_tokens is served",
    async () => {
      const { status, json } = await send({ path: "/v1/messages/count_tokens" });
      expect([status, json["input_tokens"]]).toEqual([200, expect.any(Number)]);
    },
  ],
  [
    "unknown query parameters of count_tokens are ignored",
    async () =>
      expect((await send({ path: "/v1/messages/count_tokens?beta=true&x=1" })).status).toBe(200),
  ],
  [
    "count_tokens takes the fields of messages",
    async () => {
      const fields = {
        thinking: { type: "adaptive" },
        tools: [{ name: "f", input_schema: SCHEMA }],
      };
      const { status } = await send({ path: "/v1/messages/count_tokens?beta=true", fields });
      expect(status).toBe(200);
    },
  ],
  [
    "HEAD / does no harm",
    async () => expect((await fetch(gateway.url, { method: "HEAD" })).status).toBe(200),
  ],
  [
    "GET /inference-profiles is rejected",
    async () => {
      const response = await fetch(`${gateway.url}/inference-profiles?type=SYSTEM_DEFINED`);
      await response.text();
      expect(response.status).toBe(404);
    },
  ],
  [
    "a stream has the type of server-sent events",
    async () => expect(await streamText({})).toContain("event: message_stop"),
  ],
  [
    "a stream is not buffered: its first event arrives while the provider still writes",
    async () => {
      const rest = Promise.withResolvers<void>();
      harness.providerResponse = () => pausedStream(rest.promise);
      const response = await fetch(`${gateway.url}/v1/messages`, {
        method: "POST",
        headers: { ...account.headers, "anthropic-version": VERSION },
        body: JSON.stringify({ model: MODEL, max_tokens: 100, messages: [USER], stream: true }),
      });
      const reader = response.body?.getReader();
      const first = await reader?.read();
      expect(new TextDecoder().decode(first?.value)).toContain("message_start");
      rest.resolve();
      while ((await reader?.read())?.done === false);
    },
  ],
  [
    "a request without content-length is accepted",
    async () => {
      const body = JSON.stringify({ model: MODEL, max_tokens: 100, messages: [USER] });
      const response = await fetch(`${gateway.url}/v1/messages`, {
        method: "POST",
        headers: { ...account.headers, "anthropic-version": VERSION },
        body: new Blob([body]).stream(),
      });
      await response.text();
      expect(response.status).toBe(200);
    },
  ],
];

const START =
  'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n';
const END =
  'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":1}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n';

function pausedStream(rest: Promise<void>): Response {
  const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(encode(START));
      await rest;
      controller.enqueue(encode(END));
      controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

const HEADERS: readonly Row[] = [
  ["the credential may be a bearer token", accepts({ authorization: `Bearer ${account.key}` })],
  [
    "the credential may be in x-api-key",
    async () => {
      const response = await fetch(`${gateway.url}/v1/messages`, {
        method: "POST",
        headers: {
          "x-api-key": account.key,
          "anthropic-version": VERSION,
          "content-type": "application/json",
        },
        body: JSON.stringify({ model: MODEL, max_tokens: 100, messages: [USER] }),
      });
      await response.text();
      expect(response.status).toBe(200);
    },
  ],
  ["the credential may be in both headers", accepts({ "x-api-key": account.key })],
  [
    "the credential does not reach the provider",
    async () => {
      const { headers } = await send({ headers: { "x-api-key": account.key } });
      expect([...headers.values()].join()).not.toContain(account.key);
    },
  ],
  ["anthropic-version is forwarded", forwardsHeader("anthropic-version", "2024-01-01")],
  ["anthropic-beta is forwarded verbatim", forwardsHeader("anthropic-beta", BETAS)],
  ["an unknown anthropic-* header is forwarded", forwardsHeader("anthropic-next-thing", "On, 3")],
  [
    "anthropic-dangerous-direct-browser-access is forwarded",
    forwardsHeader("anthropic-dangerous-direct-browser-access", "true"),
  ],
  [
    "x-claude-code-session-id is accepted",
    accepts({ "x-claude-code-session-id": crypto.randomUUID() }),
  ],
  ["x-claude-code-agent-id is accepted", accepts({ "x-claude-code-agent-id": "a-1" })],
  [
    "x-claude-code-parent-agent-id is accepted",
    accepts({ "x-claude-code-parent-agent-id": "a-0" }),
  ],
  ["an unknown x-claude-code-* header is accepted", accepts({ "x-claude-code-new": "x" })],
  ["headers of ANTHROPIC_CUSTOM_HEADERS are accepted", accepts({ "x-team": "search" })],
  [
    "x-app and x-stainless-* are accepted",
    accepts({ "x-app": "cli", "x-stainless-lang": "js", "x-stainless-retry-count": "1" }),
  ],
  [
    "hop-by-hop headers of the provider's reply are not relayed",
    async () => {
      const { response } = await send({});
      expect([response.get("transfer-encoding"), response.get("content-encoding")]).toEqual([
        null,
        null,
      ]);
    },
  ],
];

const tool = (more: Json): Json => ({ tools: [{ name: "f", input_schema: SCHEMA, ...more }] });
const turns = (...messages: Json[]): Json => ({ messages: [USER, ...messages] });

const FIELDS: readonly Row[] = [
  ["an unknown field is forwarded", forwards({ next_mode: "careful", next_count: 3 })],
  [
    "an unknown field in a known one is forwarded",
    forwards({ thinking: { type: "adaptive", cadence: "slow" } }),
  ],
  [
    "an unknown type of content is forwarded",
    forwards(turns({ role: "assistant", content: [{ type: "self_review", text: "ok" }] }, USER)),
  ],
  ["adaptive thinking is forwarded", forwards({ thinking: { type: "adaptive" } })],
  [
    "thinking with a budget is forwarded as written",
    forwards({ max_tokens: 4_000, thinking: { type: "enabled", budget_tokens: 2_000 } }),
  ],
  ["thinking that is off is forwarded", forwards({ thinking: { type: "disabled" } })],
  [
    "thinking.display is forwarded",
    forwards({ thinking: { type: "adaptive", display: "omitted" } }),
  ],
  [
    "context_management is forwarded",
    forwards({ context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] } }),
  ],
  ["output_config.effort is forwarded", forwards({ output_config: { effort: "low" } })],
  [
    "output_config.format is forwarded",
    forwards({
      output_config: {
        format: { type: "json_schema", schema: { ...SCHEMA, additionalProperties: false } },
      },
    }),
  ],
  [
    "output_config.task_budget is forwarded",
    forwards({ output_config: { task_budget: { type: "tokens", total: 50_000 } } }),
  ],
  ["strict of a tool is forwarded", forwards(tool({ strict: false }))],
  ["defer_loading of a tool is forwarded", forwards(tool({ defer_loading: true }))],
  ["eager_input_streaming of a tool is forwarded", forwards(tool({ eager_input_streaming: true }))],
  ["input_examples of a tool are forwarded", forwards(tool({ input_examples: [{ a: "x" }] }))],
  ["allowed_callers of a tool is forwarded", forwards(tool({ allowed_callers: ["direct"] }))],
  [
    "cache_control is forwarded",
    forwards({
      system: [{ type: "text", text: "x", cache_control: { type: "ephemeral", ttl: "1h" } }],
    }),
  ],
  [
    "metadata.user_id is forwarded",
    forwards({ metadata: { user_id: '{"device_id":"0","session_id":"1"}' } }),
  ],
  [
    "no metadata is inserted",
    async () => expect((await send({})).body).not.toHaveProperty("metadata"),
  ],
  [
    "nothing is inserted into the body, and its order is kept",
    async () => {
      const { body } = await send({ fields: { stop_sequences: ["x"], top_k: 3 } });
      expect(Object.keys(body)).toEqual([
        "model",
        "max_tokens",
        "messages",
        "stop_sequences",
        "top_k",
      ]);
    },
  ],
  [
    "a system message between turns is forwarded",
    forwards(turns({ role: "system", content: "Be short." })),
  ],
  [
    "output_config of a turn is forwarded",
    forwards(turns({ role: "system", content: [], output_config: { effort: "low" } })),
  ],
  [
    "clear_at of a system message is forwarded",
    forwards(turns({ role: "system", content: "x", clear_at: "next_user_message" })),
  ],
  [
    "a tool that is added between turns is forwarded",
    forwards(
      turns({
        role: "system",
        content: [{ type: "tool_addition", tool: { type: "tool_reference", name: "f" } }],
      }),
    ),
  ],
  [
    "caller of a tool call is forwarded",
    forwards({
      tools: [{ name: "f", input_schema: SCHEMA }],
      messages: [
        USER,
        {
          role: "assistant",
          content: [
            { type: "tool_use", id: "toolu_1", name: "f", input: {}, caller: { type: "direct" } },
          ],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "x" }] },
      ],
    }),
  ],
  [
    "a thinking block and its signature are forwarded",
    forwards(
      turns(
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "x", signature: "c2ln" },
            { type: "text", text: "y" },
          ],
        },
        USER,
      ),
    ),
  ],
  [
    "the attribution block of the system prompt is forwarded",
    forwards({
      system: [
        { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.332; cch=00000;" },
      ],
    }),
  ],
  ["safeguards are forwarded", forwards({ safeguards: { auto_mode: { enabled: true } } })],
  [
    "request tags do not fail a call, and do not label the gateway's own account",
    async () => {
      const { status, body } = await send({ fields: { tags: { project: "Search team" } } });
      expect(status).toBe(200);
      expect(body).not.toHaveProperty("tags");
    },
  ],
  ["speed is forwarded", forwards({ speed: "standard" })],
  [
    "mcp_servers are forwarded",
    forwards({ mcp_servers: [{ type: "url", url: "https://example.com/mcp", name: "x" }] }),
  ],
  [
    "an unknown member of a reply reaches the client",
    async () => {
      harness.providerResponse = () =>
        Response.json({ ...REPLY, safeguard_results: { auto_mode: "pass" } });
      expect((await send({})).json["safeguard_results"]).toEqual({ auto_mode: "pass" });
    },
  ],
  [
    "an unknown event of a stream reaches the client",
    async () => {
      const unknown = 'event: new_event\ndata: {"type":"new_event","x":1}\n\n';
      harness.providerResponse = () =>
        new Response(START + unknown + END, { headers: { "content-type": "text/event-stream" } });
      expect(await streamText({})).toContain(unknown);
    },
  ],
];

const REPLY: Json = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "hi" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
};

const invalid = "invalid_request_error";
const ERRORS: readonly Row[] = [
  [
    "a rejection of thinking.type keeps its wording",
    keepsError(400, invalid, '"thinking.type.enabled" is not supported for this model.'),
  ],
  [
    "a rejection of adaptive thinking keeps its wording",
    keepsError(400, invalid, "adaptive thinking is not supported on this model"),
  ],
  [
    "a rejection of a signature keeps its wording",
    keepsError(400, invalid, "messages.1.content.0: Invalid `signature` in `thinking` block"),
  ],
  [
    "a rejection of a system message keeps its wording",
    keepsError(400, invalid, "messages.2.role: Input should be 'user' or 'assistant'"),
  ],
  [
    "a rejection of a turn's effort keeps its wording",
    keepsError(400, invalid, "messages.1.output_config: Extra inputs are not permitted"),
  ],
  [
    "a rejection of context_management keeps its wording",
    keepsError(400, invalid, "context_management: Extra inputs are not permitted"),
  ],
  [
    "a rejection of a tool field keeps its wording",
    keepsError(400, invalid, "tools.0.custom.defer_loading: Extra inputs are not permitted"),
  ],
  [
    "a rejection of a beta keeps its wording",
    keepsError(400, invalid, "Unexpected value(s) `x-2027-01-01` for the `anthropic-beta` header."),
  ],
  [
    "a prompt that is too long keeps its wording",
    keepsError(400, invalid, "prompt is too long: 210000 tokens > 200000 maximum"),
  ],
  [
    "max_tokens beyond the context keeps its wording",
    keepsError(
      400,
      invalid,
      "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
    ),
  ],
  [
    "an image that cannot be read keeps its wording",
    keepsError(400, invalid, "Could not process image"),
  ],
  [
    "a request that is too large keeps its type",
    keepsError(413, "request_too_large", "Request exceeds the maximum size"),
  ],
  [
    "a rejection that names safeguards keeps its wording",
    keepsError(400, invalid, "safeguards: Extra inputs are not permitted"),
  ],
  ["a policy block keeps its type", keepsError(400, "policy_blocked", "blocked by policy")],
  ["an overload is a 529", keepsError(529, "overloaded_error", "Overloaded")],
  [
    "an error in the middle of a stream is unmodified",
    async () => {
      const error =
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';
      harness.providerResponse = () =>
        new Response(START + error, { headers: { "content-type": "text/event-stream" } });
      const text = await streamText({});
      expect(text).toContain('"type":"overloaded_error"');
      expect(text).toContain('"message":"Overloaded"');
    },
  ],
  [
    "a rate limit of the provider is a 429 with retry-after",
    async () => {
      harness.providerResponse = () =>
        Response.json(
          { type: "error", error: { type: "rate_limit_error", message: "slow" } },
          { status: 429, headers: { "retry-after": "7" } },
        );
      const { status, json, response } = await send({});
      expect([status, (json["error"] as Json)["type"]]).toEqual([429, "rate_limit_error"]);
      expect(Number(response.get("retry-after"))).toBeGreaterThanOrEqual(1);
    },
  ],
  [
    "a wrong credential is a 401 authentication_error",
    async () => {
      const { status, type } = await refusal("/v1/messages", {
        headers: { authorization: "Bearer x" },
        body: "{}",
      });
      expect([status, type]).toEqual([401, "authentication_error"]);
    },
  ],
  [
    "a wrong credential is not retried",
    async () => {
      const { headers } = await refusal("/v1/messages", {
        headers: { authorization: "Bearer x" },
        body: "{}",
      });
      expect(headers.get("x-should-retry")).toBe("false");
    },
  ],
  [
    "a malformed body is a 400 invalid_request_error",
    async () => {
      const { status, type } = await refusal("/v1/messages", {
        headers: account.headers,
        body: "{",
      });
      expect([status, type]).toEqual([400, invalid]);
    },
  ],
  [
    "an unknown model is a 404 not_found_error",
    async () => {
      const { status, json } = await send({ model: "claude-nothing" });
      expect([status, (json["error"] as Json)["type"]]).toEqual([404, "not_found_error"]);
    },
  ],
  [
    "a body that is too large is a 413 request_too_large",
    async () => {
      const body = JSON.stringify({
        model: MODEL,
        max_tokens: 1,
        messages: [{ ...USER, content: "x".repeat(34_000_000) }],
      });
      const { status, type } = await refusal("/v1/messages", { headers: account.headers, body });
      expect([status, type]).toEqual([413, "request_too_large"]);
    },
  ],
  [
    "the gateway's own refusal begins with the path of the field",
    async () => {
      const { status, json } = await send({ fields: { thread: { id: "thread_A1" } } });
      expect([status, (json["error"] as Json)["message"]]).toEqual([
        400,
        expect.stringMatching(/^thread: /),
      ]);
    },
  ],
];

const MODELS: readonly Row[] = [
  [
    "GET /v1/models?limit=1000 lists ids and display names",
    async () => {
      const response = await modelList({ ...account.headers, "anthropic-version": VERSION });
      const { data } = (await response.json()) as { data: Json[] };
      expect(data.length).toBeGreaterThan(0);
      for (const { id, display_name } of data)
        expect([typeof id, typeof display_name]).toEqual(["string", "string"]);
    },
  ],
  [
    "the list does not redirect",
    async () => {
      const response = await modelList(account.headers);
      await response.text();
      expect([response.status, response.headers.get("location")]).toEqual([200, null]);
    },
  ],
  [
    "the list takes x-api-key alone",
    async () => {
      const response = await modelList({ "x-api-key": account.key, "anthropic-version": VERSION });
      await response.text();
      expect(response.status).toBe(200);
    },
  ],
  [
    "the list takes custom headers",
    async () => {
      const response = await modelList({ ...account.headers, "x-team": "search" });
      await response.text();
      expect(response.status).toBe(200);
    },
  ],
  [
    "for Claude Code every id begins with claude or anthropic",
    async () => {
      const headers = {
        ...account.headers,
        "anthropic-version": VERSION,
        "user-agent": "claude-code/2.1.332",
      };
      const { data } = (await (await modelList(headers)).json()) as { data: { id: string }[] };
      expect(data.filter(({ id }) => !/^(?:claude|anthropic)/.test(id))).toEqual([]);
      const [first] = data;
      expect((await send({ model: first?.id ?? "" })).status).toBe(200);
    },
  ],
  [
    "the SDK's beta model list works, with its query parameter",
    async () => {
      const client = new Anthropic({ apiKey: account.key, baseURL: gateway.url, maxRetries: 0 });
      expect((await client.beta.models.list()).data.length).toBeGreaterThan(0);
    },
  ],
  [
    "unknown query parameters of a model are ignored",
    async () => {
      const response = await fetch(`${gateway.url}/v1/models/${MODEL}?beta=true`);
      await response.text();
      expect(response.status).toBe(200);
    },
  ],
];

const translated = modelOn("responses");
const REPLIES: readonly Row[] = [
  [
    "container is null in a reply that the gateway writes",
    async () => expect((await send({ model: translated })).json["container"]).toBeNull(),
  ],
  [
    "stop_sequence is null in a reply that the gateway writes",
    async () => expect((await send({ model: translated })).json["stop_sequence"]).toBeNull(),
  ],
  [
    "citations of a text are present in a reply that the gateway writes",
    async () => {
      const [block] = (await send({ model: translated })).json["content"] as Json[];
      expect(block).toHaveProperty("citations");
    },
  ],
  [
    "usage.server_tool_use is null in a reply that the gateway writes",
    async () =>
      expect(
        ((await send({ model: translated })).json["usage"] as Json)["server_tool_use"],
      ).toBeNull(),
  ],
  [
    "usage.output_tokens_details is present in a reply that the gateway writes",
    async () =>
      expect((await send({ model: translated })).json["usage"]).toHaveProperty(
        "output_tokens_details",
      ),
  ],
  [
    "a stream that the gateway writes begins with container null",
    async () => {
      const text = await streamText({}, translated);
      const start = JSON.parse(/data: (.*)/.exec(text)?.[1] ?? "{}") as { message: Json };
      expect(start.message["container"]).toBeNull();
    },
  ],
];

const OPTIONS: readonly Row[] = [
  ["x-postern-lossy", accepts({ "x-postern-lossy": "true" })],
  [
    "x-postern-max-cost-usd and x-postern-on-max-cost",
    accepts({ "x-postern-max-cost-usd": "1", "x-postern-on-max-cost": "refuse" }),
  ],
  ["x-postern-receipt", accepts({ "x-postern-receipt": "1" })],
  ["x-postern-labels", accepts({ "x-postern-labels": "team=search" })],
].map(([name, check]): Row => [
  `the option ${String(name)} works as a header`,
  check as () => Promise<void>,
]);

const PROTOCOL: readonly Row[] = [
  [
    "GET /protocol is served to anyone",
    async () => {
      const response = await fetch(`${gateway.url}/protocol`);
      expect(response.headers.get("content-type")).toStartWith("application/json");
      expect(await response.json()).toMatchObject({
        gateway: "postern",
        forwarded: { headers: expect.arrayContaining(["anthropic-*"]) },
      });
    },
  ],
];

const SECTIONS: Readonly<Record<string, readonly Row[]>> = {
  endpoints: ENDPOINTS,
  headers: HEADERS,
  "body fields": FIELDS,
  errors: ERRORS,
  models: MODELS,
  replies: REPLIES,
  options: OPTIONS,
  protocol: PROTOCOL,
};

/** Rows that do not hold, and what a client gets instead. */
const NOT_HELD: readonly (readonly [row: string, path: string, reason: string])[] = [
  [
    "Bedrock InvokeModel",
    "/model/anthropic.claude-opus-5-5/invoke",
    "A gateway serves at least one of three formats. This one serves Messages, to which Claude on Bedrock is translated.",
  ],
  [
    "Bedrock InvokeModel, streamed",
    "/model/anthropic.claude-opus-5-5/invoke-with-response-stream",
    "As above: set ANTHROPIC_BASE_URL instead of ANTHROPIC_BEDROCK_BASE_URL.",
  ],
  [
    "Vertex rawPredict",
    "/projects/p/locations/us-east5/publishers/anthropic/models/claude-opus-5-5:rawPredict",
    "As above: set ANTHROPIC_BASE_URL instead of ANTHROPIC_VERTEX_BASE_URL.",
  ],
  [
    "Vertex streamRawPredict",
    "/projects/p/locations/us-east5/publishers/anthropic/models/claude-opus-5-5:streamRawPredict",
    "As above.",
  ],
];

describe("the gateway contract: rows that do not hold", () => {
  test.each(NOT_HELD.map(([row, path, reason]) => ({ row, path, reason })))(
    "$row is a 404 that says where the endpoints are: $reason",
    async ({ path }) => {
      const response = await fetch(gateway.url + path, {
        method: "POST",
        headers: { ...account.headers, "anthropic-version": VERSION },
        body: "{}",
      });
      expect([response.status, await response.text()]).toEqual([
        404,
        expect.stringMatching(/"message":"[^"]{20,}/),
      ]);
    },
  );

  test("are at most 4 of 94, and 90 hold", () => {
    const held = Object.values(SECTIONS).flat();
    expect([NOT_HELD.length <= 4, held.length >= 90]).toEqual([true, true]);
    expect(new Set(held.map(([row]) => row)).size).toBe(held.length);
  });
});

describe.each(Object.entries(SECTIONS))("the gateway contract: %s", (_, rows) => {
  test.each(rows.map(([row, check]) => ({ row, check })))("$row", async ({ check }) => {
    await check();
  });
});
