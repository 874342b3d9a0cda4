// Tools of MCP servers that the gateway calls for models whose provider does not, through the official SDKs.

import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import type Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import type { Script, ScriptedTurn } from "@postern/simulator";
import type OpenAI from "openai";
import { call, valueAt } from "../../spec/api-client.ts";
import { startMcpServer } from "../../support/fakes/mcp-server.ts";
import {
  anthropicFor,
  callApi,
  type Json,
  modelOn,
  openaiFor,
  startHarness,
  type Wire,
} from "../support/harness.ts";

const SECRET = "Bearer sk-tides-0123456789";
/** The wires of providers that connect to no MCP server. */
const TOOLLESS: readonly Wire[] = ["chat", "gemini", "converse"];

let turns: readonly ScriptedTurn[] = [];
let turn = 0;
const script: Script = () => turns[Math.min(turn++, turns.length - 1)];
const mcp = startMcpServer();
const harness = await startHarness({ script });
const { gateway, account } = harness;
const anthropic = anthropicFor(harness);
const openai = openaiFor(harness);
const save = (name: string, body: Json) =>
  call(gateway, `POST /v1/mcp-servers/${name}`, { key: account.key, body });
await save("tides", { url: mcp.url, headers: { authorization: SECRET } });
afterAll(async () => {
  await harness.stop();
  await mcp.stop();
});

const use = (name: string, input: Json = {}): ScriptedTurn => ({
  calls: [{ name, input: JSON.stringify(input) }],
});
const ASK = use("high_tide", { place: "Oslo" });
const RESULT = "High tide at Oslo is at three.";
beforeEach(() => {
  turns = [ASK, { text: "At three." }];
  turn = 0;
  mcp.override = undefined;
  mcp.requests.length = 0;
});

const TOOL = {
  type: "mcp",
  server_label: "sea",
  server_url: mcp.url,
  require_approval: "never",
} as const;
const SERVERS = {
  mcp_servers: [{ type: "url" as const, url: mcp.url, name: "sea" }],
  tools: [{ type: "mcp_toolset" as const, mcp_server_name: "sea" }],
};
const responsesBody = (model: string, more: Json = {}): Json => ({
  model,
  input: "When is high tide?",
  max_output_tokens: 1_000,
  tools: [TOOL],
  ...more,
});
const messagesBody = (model: string, more: Json = {}) => ({
  model,
  max_tokens: 1_000,
  messages: [{ role: "user" as const, content: "When is high tide?" }],
  ...SERVERS,
  ...more,
});
const lastRequest = (): string => JSON.stringify(harness.upstreamRequests.at(-1)?.body);
const records = async (): Promise<readonly Json[]> => {
  const { body } = await call(gateway, "GET /v1/usage", { key: account.key });
  return valueAt(body, "data") as Json[];
};

// A provider that connects itself could not: only the gateway has the header.
describe.each(["chat", "responses", "messages", "gemini", "converse"] as const)(
  "on the %s wire",
  (wire) => {
    test("Responses get the list of tools, the call and the answer", async () => {
      const body = responsesBody(modelOn(wire));
      const whole = await openai.responses.create(body as never);
      turn = 0;
      const streamed = await openai.responses.stream(body as never).finalResponse();
      for (const { output } of [whole as OpenAI.Responses.Response, streamed]) {
        const shown = output.filter(({ type }) => type !== "reasoning");
        expect(shown).toMatchObject([
          { type: "mcp_list_tools", server_label: "sea" },
          {
            type: "mcp_call",
            server_label: "sea",
            name: "high tide",
            arguments: '{"place":"Oslo"}',
            output: RESULT,
            error: null,
            status: "completed",
          },
          { type: "message", content: [{ text: "At three." }] },
        ]);
        const [list] = shown;
        expect(list?.type === "mcp_list_tools" && list.tools.map(({ name }) => name)).toContain(
          "high tide",
        );
      }
      expect(lastRequest()).toContain(RESULT);
    });

    // On the gateway's accounts, no provider gets the loopback URL of this test over its own API.
    if (wire !== "messages")
      test("Messages get the call, the result and the answer", async () => {
        const body = messagesBody(modelOn(wire));
        const whole = await anthropic.beta.messages.create(body);
        turn = 0;
        const streamed = await anthropic.beta.messages.stream(body).finalMessage();
        for (const { content } of [whole, streamed])
          expect(content.filter(({ type }) => type !== "thinking")).toMatchObject([
            {
              type: "mcp_tool_use",
              name: "high tide",
              server_name: "sea",
              input: { place: "Oslo" },
            },
            { type: "mcp_tool_result", is_error: false, content: [{ type: "text", text: RESULT }] },
            { type: "text", text: "At three." },
          ]);
      });
  },
);

test("Google's SDK gets the answer", async () => {
  const google = new GoogleGenAI({
    apiKey: account.key,
    httpOptions: { baseUrl: gateway.url },
  });
  const reply = await google.models.generateContent({
    model: modelOn("chat"),
    contents: "When is high tide?",
    config: {
      maxOutputTokens: 1_000,
      tools: [{ mcpServers: [{ name: "sea", streamableHttpTransport: { url: mcp.url } }] }],
    },
  });
  expect(reply.text).toBe("At three.");
  expect(lastRequest()).toContain(RESULT);
});

test("a conversation over Messages continues with the call and its result", async () => {
  const messages: Anthropic.Beta.BetaMessageParam[] = [{ role: "user", content: "When?" }];
  const body = { ...messagesBody(modelOn("chat")), messages };
  const { content } = await anthropic.beta.messages.create(body);
  messages.push({ role: "assistant", content }, { role: "user", content: "And tomorrow?" });
  turns = [{ text: "At four." }];
  await anthropic.beta.messages.create(body);
  const sent = harness.upstreamRequests.at(-1)?.body["messages"] as Json[];
  expect(sent.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
  expect(JSON.stringify(sent)).toContain(RESULT);
});

test("a conversation over Responses continues, stored or sent again, with one list of tools", async () => {
  const body = responsesBody(modelOn("chat"));
  const first = (await openai.responses.create(body as never)) as OpenAI.Responses.Response;
  for (const more of [
    { previous_response_id: first.id, input: "And tomorrow?" },
    {
      input: [{ role: "user", content: "When?" }, ...first.output, { role: "user", content: "?" }],
    },
  ]) {
    turns = [{ text: "At four." }];
    const next = (await openai.responses.create({
      ...body,
      ...more,
    } as never)) as OpenAI.Responses.Response;
    expect(next.output.map(({ type }) => type)).toEqual(["message"]);
    const sent = harness.upstreamRequests.at(-1)?.body["messages"] as Json[];
    expect(sent.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
    ]);
    expect(JSON.stringify(sent)).toContain(RESULT);
  }
});

test("the usage record has the calls, and no text of them", async () => {
  turns = [ASK, use("fail"), { text: "No." }];
  await anthropic.beta.messages.create(messagesBody(modelOn("chat")));
  const [record] = await records();
  expect(record?.["mcp_calls"]).toEqual([
    { server: "sea", tool: "high tide", ok: true, ms: expect.any(Number) },
    { server: "sea", tool: "fail", ok: false, ms: expect.any(Number) },
  ]);
  expect(JSON.stringify(record)).not.toContain("Oslo");
});

test("the server gets the secret header, and replies, results and records never have it", async () => {
  turns = [use("whoami"), { text: "Done." }];
  const { text } = await callApi(harness, "messages", messagesBody(modelOn("chat")));
  expect(mcp.requests.every(({ headers }) => headers.get("authorization") === SECRET)).toBe(true);
  expect(text).toContain("[redacted]");
  for (const seen of [text, lastRequest(), JSON.stringify(await records())])
    expect(seen).not.toContain("sk-tides");
});

test("the caller's own token is not sent in place of the workspace's", async () => {
  const [server] = SERVERS.mcp_servers;
  const own = { ...server, authorization_token: "sk-of-the-caller" };
  await callApi(harness, "messages", messagesBody(modelOn("chat"), { mcp_servers: [own] }));
  expect(mcp.requests.every(({ headers }) => headers.get("authorization") === SECRET)).toBe(true);
});

test("sends the model an error as the result, cuts a long result and names an image", async () => {
  turns = [use("fail"), use("long"), use("picture"), { text: "Done." }];
  const body = messagesBody(modelOn("chat"));
  const { content } = await anthropic.beta.messages.create(body);
  const results = content.flatMap((block) =>
    block.type === "mcp_tool_result" ? [JSON.stringify(block.content)] : [],
  );
  expect(results[0]).toContain("There is no tide.");
  expect(content).toMatchObject([{}, { is_error: true }, {}, { is_error: false }, {}, {}, {}]);
  expect(results[1]).toContain("The rest of the result is cut.");
  expect(results[1]?.length).toBeLessThan(8_200);
  expect(results[2]).toContain("image content");
});

test.each([
  [
    "an error of the protocol",
    async (request: Request) => {
      const { id } = (await request.json()) as Json;
      return Response.json({ jsonrpc: "2.0", id, error: { code: 1, message: SECRET } });
    },
  ],
  ["a redirect", () => Response.redirect("http://localhost:1/secret", 302)],
  ["no MCP", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
  ["a refusal that quotes the header", () => new Response(SECRET, { status: 401 })],
  ["a response without end", () => new Response("a".repeat(2_000_000))],
])("a server with %s is a 400 before the model is asked", async (_, reply) => {
  await save("tides", { url: mcp.url, headers: { authorization: SECRET } });
  mcp.override = reply;
  const sent = harness.upstreamRequests.length;
  const refused = await callApi(harness, "messages", messagesBody(modelOn("chat")));
  expect(refused.status).toBe(400);
  expect(valueAt(refused.json, "error.message")).toContain("did not list its tools");
  expect(refused.text).not.toContain("sk-tides");
  expect(harness.upstreamRequests.length).toBe(sent);
});

test("a server that fails during the loop ends no call", async () => {
  await callApi(harness, "messages", messagesBody(modelOn("chat")));
  turn = 0;
  mcp.override = () => new Response(SECRET, { status: 500 });
  const { status, text } = await callApi(harness, "messages", messagesBody(modelOn("chat")));
  expect(status).toBe(200);
  expect(text).toContain("could not be reached");
  expect(text).not.toContain("sk-tides");
});

test.each(TOOLLESS)("a server that is not on the list is a 400 on the %s wire", async (wire) => {
  const [server] = SERVERS.mcp_servers;
  for (const url of [`${mcp.url}/other`, "https://mcp.example/mcp", "http://169.254.169.254/"]) {
    const more = { mcp_servers: [{ ...server, url }] };
    const { status, json } = await callApi(harness, "messages", messagesBody(modelOn(wire), more));
    expect(status).toBe(400);
    expect(valueAt(json, "error.message")).toContain("/v1/mcp-servers");
  }
  expect(mcp.requests).toEqual([]);
});

test("calls that need an approval are refused", async () => {
  for (const require_approval of [undefined, "always", { never: { tool_names: ["whoami"] } }]) {
    const tools = [{ ...TOOL, require_approval }];
    const body = responsesBody(modelOn("chat"), { tools });
    const { status, json } = await callApi(harness, "responses", body);
    expect(status).toBe(400);
    expect(valueAt(json, "error.param")).toBe("tools[0].require_approval");
  }
});

test("only the tools that the request and the list allow are offered", async () => {
  turns = [{ text: "Hi." }];
  await save("tides", { url: mcp.url, allowed_tools: ["high tide", "fail"] });
  const body = responsesBody(modelOn("chat"), {
    tools: [{ ...TOOL, allowed_tools: ["high tide", "whoami"] }],
  });
  await callApi(harness, "responses", body);
  const tools = harness.upstreamRequests.at(-1)?.body["tools"] as Json[];
  expect(tools.map((one) => valueAt(one, "function.name"))).toEqual(["high_tide"]);
  await save("tides", { url: mcp.url, headers: { authorization: SECRET } });
});

test("a function of the caller keeps its name, and ends the reply", async () => {
  const own = { type: "function", name: "high_tide", parameters: { type: "object" } };
  turns = [
    {
      calls: [
        { name: "high_tide", input: "{}" },
        { name: "high_tide_2", input: '{"place":"Oslo"}' },
      ],
    },
  ];
  const body = responsesBody(modelOn("chat"), { tools: [own, TOOL] });
  const { json } = await callApi(harness, "responses", body);
  const output = json["output"] as Json[];
  expect(output.map(({ type }) => type)).toEqual(["mcp_list_tools", "function_call", "mcp_call"]);
});

test("a key may be barred from servers, also where the provider connects itself", async () => {
  const none = await call(gateway, "POST /v1/keys", {
    key: account.key,
    body: { allowed_mcp_servers: [] },
  });
  const one = await call(gateway, "POST /v1/keys", {
    key: account.key,
    body: { allowed_mcp_servers: ["tid*"] },
  });
  for (const wire of ["chat", "messages"] as const) {
    const body = messagesBody(modelOn(wire));
    const refused = await call(gateway, "POST /v1/messages", {
      key: String(valueAt(none.body, "api_key")),
      body,
    });
    expect(refused.status).toBe(403);
    expect(valueAt(refused.body, "error.message")).toContain("allowed_mcp_servers");
  }
  const allowed = await call(gateway, "POST /v1/messages", {
    key: String(valueAt(one.body, "api_key")),
    body: messagesBody(modelOn("chat")),
  });
  expect(allowed.status).toBe(200);
  expect(mcp.requests.length).toBeGreaterThan(0);
});

test("a provider that connects itself gets the servers as they are", async () => {
  const plain = "https://mcp.example/mcp";
  const [server] = SERVERS.mcp_servers;
  turns = [{ text: "Hi." }];
  const body = messagesBody(modelOn("messages"), { mcp_servers: [{ ...server, url: plain }] });
  await callApi(harness, "messages", body);
  expect(harness.upstreamRequests.at(-1)?.body["mcp_servers"]).toMatchObject([{ url: plain }]);
  expect(mcp.requests).toEqual([]);
});

test("headers that could change the request to the server are refused", async () => {
  for (const name of ["Host", "Transfer-Encoding", "content-length", "mcp-session-id", "a b"]) {
    const tools = [{ ...TOOL, headers: { [name]: "x", other: "y" } }];
    const { status } = await callApi(
      harness,
      "responses",
      responsesBody(modelOn("chat"), { tools }),
    );
    expect(status).toBe(400);
  }
  const split = { ...TOOL, headers: { "x-a": "b\r\nhost: evil", other: "y" } };
  const body = responsesBody(modelOn("chat"), { tools: [split] });
  expect((await callApi(harness, "responses", body)).status).toBe(400);
  expect(mcp.requests).toEqual([]);
});

test("tools are listed once for several calls, and again after a change of the list", async () => {
  const lists = (): number =>
    mcp.requests.filter(({ body }) => body.includes('"tools/list"')).length;
  await save("tides", { url: mcp.url, headers: { authorization: SECRET } });
  turns = [{ text: "Hi." }];
  const body = messagesBody(modelOn("chat"));
  await callApi(harness, "messages", body);
  await callApi(harness, "messages", body);
  expect(lists()).toBe(1);
});

test("more calls than the limit are not made", async () => {
  turns = [ASK];
  const body = responsesBody(modelOn("chat"), { max_tool_calls: 2 });
  const { json } = await callApi(harness, "responses", body);
  const made = mcp.requests.filter(({ body: text }) => text.includes('"tools/call"'));
  expect(made).toHaveLength(2);
  expect(String(valueAt((json["output"] as Json[]).at(-1), "error"))).toContain("No more calls");
});
