// A web search that the provider runs, over each API and at each provider that has one.

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import type Anthropic from "@anthropic-ai/sdk";
import { errorOf } from "../../inference/support/harness.ts";
import {
  anthropicFor,
  type Api,
  callApi,
  type Json,
  minimalBody,
  modelOn,
  openaiFor,
  startHarness,
  type Wire,
} from "../support/harness.ts";
import {
  SEARCH_QUERY,
  SEARCH_TEXT,
  SEARCH_URL,
  searchedReply,
  type SearchWire,
} from "../support/searched-replies.ts";

const harness = await startHarness({ sellsServerTools: true });
afterEach(() => {
  harness.providerResponse = undefined;
});
afterAll(() => harness.stop());

const LOCATION = { city: "Oslo", region: "Oslo", country: "NO", timezone: "Europe/Oslo" };
const LOCATED = { type: "approximate", ...LOCATION };
const DOMAINS = ["a.example", "b.example"];
const MESSAGES_TOOL = { type: "web_search_20250305", name: "web_search" };

interface RequestCase {
  readonly title: string;
  readonly api: Api;
  readonly wire: Wire;
  readonly fields: Json;
  readonly sent: Json;
  readonly dropped?: string;
}

const REQUESTS: readonly RequestCase[] = [
  {
    title: "Responses to Anthropic",
    api: "responses",
    wire: "messages",
    fields: {
      tools: [
        {
          type: "web_search",
          filters: { allowed_domains: DOMAINS },
          user_location: LOCATED,
          search_context_size: "low",
          external_web_access: true,
        },
      ],
      max_tool_calls: 3,
      include: ["web_search_call.action.sources"],
    },
    sent: {
      tools: [{ ...MESSAGES_TOOL, max_uses: 3, allowed_domains: DOMAINS, user_location: LOCATED }],
    },
    dropped: "tools[0].search_context_size",
  },
  {
    title: "Responses to Anthropic, which must search",
    api: "responses",
    wire: "messages",
    fields: {
      tools: [{ type: "web_search_preview" }],
      tool_choice: { type: "web_search_preview" },
    },
    sent: { tools: [MESSAGES_TOOL], tool_choice: { type: "tool", name: "web_search" } },
  },
  {
    title: "Responses to Google",
    api: "responses",
    wire: "gemini",
    fields: { tools: [{ type: "web_search", user_location: LOCATED }], max_tool_calls: 3 },
    sent: { tools: [{ googleSearch: {} }] },
    dropped: "tools[0].user_location, max_tool_calls",
  },
  {
    title: "Messages to OpenAI",
    api: "messages",
    wire: "responses",
    fields: {
      tools: [
        { ...MESSAGES_TOOL, max_uses: 2, allowed_domains: DOMAINS, user_location: LOCATED },
        { name: "add", input_schema: { type: "object", properties: {} } },
      ],
      tool_choice: { type: "tool", name: "web_search" },
    },
    sent: {
      tools: [
        expect.objectContaining({ type: "function", name: "add" }),
        { type: "web_search", filters: { allowed_domains: DOMAINS }, user_location: LOCATED },
      ],
      tool_choice: { type: "web_search" },
      max_tool_calls: 2,
    },
  },
  {
    title: "Messages to Google",
    api: "messages",
    wire: "gemini",
    fields: { tools: [{ ...MESSAGES_TOOL, type: "web_search_20260209", max_uses: 2 }] },
    sent: { tools: [{ googleSearch: {} }] },
    dropped: "tools[0].max_uses",
  },
  {
    title: "the options of Chat Completions to OpenAI",
    api: "chat",
    wire: "responses",
    fields: {
      web_search_options: {
        search_context_size: "high",
        user_location: { type: "approximate", approximate: LOCATION },
      },
    },
    sent: {
      tools: [{ type: "web_search", search_context_size: "high", user_location: LOCATED }],
    },
  },
  {
    title: "the options of Chat Completions to Anthropic",
    api: "chat",
    wire: "messages",
    fields: { web_search_options: {} },
    sent: { tools: [MESSAGES_TOOL] },
  },
  {
    title: "OpenRouter's tool to Anthropic",
    api: "chat",
    wire: "messages",
    fields: {
      tools: [
        {
          type: "openrouter:web_search",
          parameters: { max_uses: 1, excluded_domains: DOMAINS, engine: "exa" },
        },
      ],
    },
    sent: { tools: [{ ...MESSAGES_TOOL, max_uses: 1, blocked_domains: DOMAINS }] },
    dropped: "tools[0].parameters.engine",
  },
];

describe("a search of", () => {
  for (const { title, api, wire, fields, sent, dropped } of REQUESTS)
    test(title, async () => {
      const { status, headers, text } = await callApi(
        harness,
        api,
        minimalBody(api, wire, "hi", fields),
      );
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
      expect(headers.get("x-postern-dropped")).toBe(dropped ?? null);
      expect(harness.upstreamRequests.at(-1)?.body).toMatchObject(sent);
    });
});

const REFUSED: readonly (readonly [
  title: string,
  api: Api,
  wire: Wire,
  fields: Json,
  param: string,
])[] = [
  [
    "allowed domains at Google",
    "messages",
    "gemini",
    { tools: [{ ...MESSAGES_TOOL, allowed_domains: DOMAINS }] },
    "tools[0].allowed_domains",
  ],
  [
    "blocked domains at OpenAI",
    "messages",
    "responses",
    { tools: [{ ...MESSAGES_TOOL, blocked_domains: DOMAINS }] },
    "tools[0].blocked_domains",
  ],
  [
    "no live access at Anthropic",
    "responses",
    "messages",
    { tools: [{ type: "web_search", external_web_access: false }] },
    "tools[0].external_web_access",
  ],
  [
    "a required search at Google",
    "responses",
    "gemini",
    { tools: [{ type: "web_search" }], tool_choice: { type: "web_search" } },
    "tool_choice",
  ],
  [
    "functions beside a search at Google",
    "messages",
    "gemini",
    { tools: [MESSAGES_TOOL, { name: "add", input_schema: { type: "object" } }] },
    "tools[0]",
  ],
  [
    "a search at Bedrock, which has none",
    "messages",
    "converse",
    { tools: [MESSAGES_TOOL] },
    "tools[0]",
  ],
  [
    "a field that only the caller's API knows",
    "messages",
    "responses",
    { tools: [{ ...MESSAGES_TOOL, newest_only: 1 }] },
    "tools[0].newest_only",
  ],
];

describe("refuses", () => {
  for (const [title, api, wire, fields, param] of REFUSED)
    test(title, async () => {
      const { status, json } = await callApi(harness, api, minimalBody(api, wire, "hi", fields));
      const error = errorOf(json);
      expect([status, error["param"]]).toEqual([400, param]);
    });
});

const PAIRS: readonly (readonly [api: Api, wire: SearchWire])[] = [
  ["chat", "responses"],
  ["chat", "messages"],
  ["chat", "gemini"],
  ["responses", "messages"],
  ["responses", "gemini"],
  ["messages", "responses"],
  ["messages", "gemini"],
];

/** What the caller gets: queries, URLs of the results, URLs that the text cites, and the text. */
interface SeenSearch {
  readonly queries: readonly unknown[];
  readonly results: readonly unknown[];
  readonly citations: readonly unknown[];
  readonly text: string;
  readonly cost: unknown;
}

const SEEN: Readonly<Record<Api, (model: string, stream: boolean) => Promise<SeenSearch>>> = {
  async chat(model, stream) {
    const { chat } = openaiFor(harness);
    const messages = [{ role: "user" as const, content: "hi" }];
    const body = { model, messages, web_search_options: {} };
    if (!stream) {
      const { choices, usage } = await chat.completions.create(body);
      const { content, annotations = [] } = choices[0]?.message ?? {};
      const citations = annotations.map((one) => one.url_citation.url);
      return { queries: [], results: [], citations, text: content ?? "", cost: costOf(usage) };
    }
    let text = "";
    let cost: unknown;
    const citations: unknown[] = [];
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    for await (const chunk of await chat.completions.create({ ...body, ...options })) {
      const delta = chunk.choices[0]?.delta as { content?: string; annotations?: Json[] };
      text += delta?.content ?? "";
      for (const one of delta?.annotations ?? [])
        citations.push((one["url_citation"] as Json)["url"]);
      cost ??= costOf(chunk.usage);
    }
    return { queries: [], results: [], citations, text, cost };
  },
  async responses(model, stream) {
    const { responses } = openaiFor(harness);
    const body = {
      model,
      input: "hi",
      tools: [{ type: "web_search" as const }],
      include: ["web_search_call.action.sources" as const],
    };
    const { output, output_text, usage } = stream
      ? await responses.stream(body).finalResponse()
      : await responses.create(body);
    const searches = output.flatMap((item) =>
      item.type === "web_search_call" && item.action.type === "search" ? [item.action] : [],
    );
    const citations = output.flatMap((item) =>
      item.type !== "message"
        ? []
        : item.content.flatMap((part) =>
            part.type !== "output_text"
              ? []
              : part.annotations.map((one) => (one.type === "url_citation" ? one.url : one)),
          ),
    );
    return {
      queries: searches.flatMap(({ queries }) => queries ?? []),
      results: searches.flatMap(({ sources }) => sources?.map(({ url }) => url) ?? []),
      citations,
      text: output_text,
      cost: costOf(usage),
    };
  },
  async messages(model, stream) {
    const { messages } = anthropicFor(harness);
    const body: Anthropic.MessageCreateParamsNonStreaming = {
      model,
      max_tokens: 100,
      messages: [{ role: "user", content: "hi" }],
      tools: [{ type: "web_search_20250305", name: "web_search" }],
    };
    let streamedCost: unknown;
    const { content, usage } = stream
      ? await messages
          .stream(body)
          .on("streamEvent", (event) => {
            if (event.type === "message_delta") streamedCost = costOf(event.usage);
          })
          .finalMessage()
      : await messages.create(body);
    return {
      queries: content.flatMap((block) =>
        block.type === "server_tool_use" ? [(block.input as Json)["query"]] : [],
      ),
      results: content.flatMap((block) =>
        block.type === "web_search_tool_result" && Array.isArray(block.content)
          ? block.content.map(({ url }) => url)
          : [],
      ),
      citations: content.flatMap((block) =>
        block.type === "text" ? (block.citations ?? []).map((one) => "url" in one && one.url) : [],
      ),
      text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
      cost: streamedCost ?? costOf(usage),
    };
  },
};

function costOf(usage: unknown): unknown {
  return (usage as Json | null | undefined)?.["cost"];
}

/** Three tokens in and out, and one search at the provider's price. */
const COSTS: Readonly<Record<SearchWire, number>> = {
  responses: 0.010018,
  messages: 0.010018,
  gemini: 0.014018,
};

describe("the reply", () => {
  for (const [api, wire] of PAIRS)
    for (const stream of [false, true])
      test(`of ${wire} over ${api} has the search${stream ? ", streamed" : ""}`, async () => {
        harness.providerResponse = () => searchedReply(wire, stream);
        const seen = await SEEN[api](modelOn(wire), stream);
        const hasCalls = api !== "chat";
        expect(seen).toEqual({
          queries: hasCalls ? [SEARCH_QUERY] : [],
          results: hasCalls ? [SEARCH_URL] : [],
          citations: [SEARCH_URL],
          text: SEARCH_TEXT,
          cost: COSTS[wire],
        });
      });
});

describe("a search in the conversation", () => {
  const user = { role: "user", content: "hi" };
  const again = { role: "user", content: "And tomorrow?" };

  test("of Google is left out on the way to Anthropic, with its citations", async () => {
    harness.providerResponse = () => searchedReply("gemini", false);
    const body = minimalBody("messages", "gemini", "hi", { tools: [MESSAGES_TOOL] });
    const { json } = await callApi(harness, "messages", body);
    harness.providerResponse = undefined;
    const { status, headers } = await callApi(harness, "messages", {
      ...minimalBody("messages", "messages", "hi"),
      messages: [user, { role: "assistant", content: json["content"] }, again],
    });
    expect([status, headers.get("x-postern-dropped")]).toEqual([
      200,
      "messages[1].content[0].citations, messages[1].content[1], messages[1].content[2]",
    ]);
    const sent = harness.upstreamRequests.at(-1)?.body["messages"];
    expect(sent).toEqual([
      user,
      { role: "assistant", content: [{ type: "text", text: SEARCH_TEXT }] },
      again,
    ]);
  });

  for (const [api, from, to] of [
    ["messages", "messages", "gemini"],
    ["messages", "messages", "converse"],
    ["responses", "responses", "messages"],
    ["responses", "responses", "chat"],
  ] as const)
    test(`of ${from} is left out at ${to}, and its text is sent`, async () => {
      harness.providerResponse = () => searchedReply(from, false);
      const { json } = await callApi(harness, api, minimalBody(api, from, "hi"));
      harness.providerResponse = undefined;
      const field = api === "messages" ? "content" : "output";
      const answered =
        api === "messages"
          ? { messages: [user, { role: "assistant", content: json[field] }, again] }
          : { input: [user, ...(json[field] as readonly Json[]), again] };
      const reply = await callApi(harness, api, { ...minimalBody(api, to, "hi"), ...answered });
      expect([reply.status, reply.headers.get("x-postern-dropped")]).toEqual([
        200,
        expect.stringContaining(
          api === "messages" ? "messages[1].content[0], messages[1].content[1]" : "input[1]",
        ),
      ]);
      const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
      expect(sent).toContain(SEARCH_TEXT);
      expect(sent).not.toContain(SEARCH_QUERY);
    });
});
