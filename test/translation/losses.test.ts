// Reply content that the caller's API cannot express is listed in x-postern-dropped and in the usage object.

import { afterAll, describe, expect, test } from "bun:test";
import { sseEvents } from "../../packages/wires/test/stream-helpers.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import {
  type Api,
  APIS,
  callApi,
  type Json,
  type RawResponse,
  minimalBody,
  startHarness,
  type Wire,
} from "./support/harness.ts";

const harness = await startHarness();
afterAll(async () => {
  await checkExchanges(harness, "reply losses");
  await harness.stop();
});

interface LossCase {
  readonly title: string;
  readonly wire: Wire;
  readonly replyBody: Json;
  readonly events: readonly Json[];
  /** The expected paths by API, without the wire's own API. */
  readonly dropped: Readonly<Partial<Record<Api, readonly string[]>>>;
}

const PIXEL = "iVBORw0KGgo=";
const GROUNDED = {
  content: { role: "model", parts: [{ text: "It rained." }] },
  finishReason: "STOP",
  groundingMetadata: {
    searchEntryPoint: { renderedContent: "<div>rain</div>" },
    groundingChunks: [{ web: { uri: "https://example.com/rain", title: "Rain" } }],
  },
  urlContextMetadata: { urlMetadata: [{ retrievedUrl: "https://example.com/rain" }] },
};
const GEMINI_USAGE = { promptTokenCount: 3, candidatesTokenCount: 3, totalTokenCount: 6 };
const SEARCH = {
  type: "server_tool_use",
  id: "srvtoolu_1",
  name: "web_search",
  input: { query: "rain" },
};
const SEARCH_RESULT = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
const MESSAGES_USAGE = { input_tokens: 3, output_tokens: 3 };
const MESSAGE = { id: "msg_1", type: "message", role: "assistant", model: "claude" };
const SEARCH_CALL = {
  id: "ws_1",
  type: "web_search_call",
  status: "completed",
  action: { type: "search", query: "rain" },
};
const MESSAGE_ITEM = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "It rained.", annotations: [], logprobs: [] }],
};
const RESPONSE = {
  id: "resp_1",
  object: "response",
  created_at: 1_700_000_000,
  status: "completed",
  model: "echo",
  output: [SEARCH_CALL, MESSAGE_ITEM],
  usage: { input_tokens: 3, output_tokens: 3, total_tokens: 6 },
};
const CHUNK = { id: "c_1", object: "chat.completion.chunk", created: 1_700_000_000, model: "echo" };
const CHAT_USAGE = { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 };
const LOGPROB = { token: "It", logprob: -0.1, bytes: [73, 116], top_logprobs: [] };
const IMAGE = {
  type: "image_url",
  image_url: { url: `data:image/png;base64,${PIXEL}` },
};

const LOSS_CASES: readonly LossCase[] = [
  {
    title: "search suggestions and fetched URLs",
    wire: "gemini",
    replyBody: { candidates: [GROUNDED], usageMetadata: GEMINI_USAGE },
    events: [{ candidates: [GROUNDED], usageMetadata: GEMINI_USAGE }],
    dropped: {
      chat: [
        "reply.choices[0].message.content[1].searchEntryPoint",
        "reply.choices[0].message.content[2].urlContextMetadata",
      ],
      responses: ["reply.output[1].searchEntryPoint", "reply.output[1].urlContextMetadata"],
      messages: ["reply.content[1].searchEntryPoint", "reply.content[1].urlContextMetadata"],
    },
  },
  {
    title: "executed code and an image",
    wire: "gemini",
    ...(() => {
      const parts = [
        { executableCode: { language: "PYTHON", code: "1" } },
        { inlineData: { mimeType: "image/png", data: PIXEL } },
        { text: "done" },
      ];
      const replyBody = {
        candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }],
        usageMetadata: GEMINI_USAGE,
      };
      return { replyBody, events: [replyBody] };
    })(),
    dropped: {
      chat: ["reply.choices[0].message.content[0].executableCode"],
      responses: ["reply.output[0].executableCode"],
      messages: ["reply.content[0].executableCode", "reply.content[0].image"],
    },
  },
  {
    title: "a server tool's call and result",
    wire: "messages",
    replyBody: {
      ...MESSAGE,
      content: [SEARCH, SEARCH_RESULT, { type: "text", text: "It rained." }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: MESSAGES_USAGE,
    },
    events: [
      {
        type: "message_start",
        message: { ...MESSAGE, content: [], stop_reason: null, usage: MESSAGES_USAGE },
      },
      { type: "content_block_start", index: 0, content_block: SEARCH },
      { type: "content_block_stop", index: 0 },
      { type: "content_block_start", index: 1, content_block: SEARCH_RESULT },
      { type: "content_block_stop", index: 1 },
      { type: "content_block_start", index: 2, content_block: { type: "text", text: "" } },
      {
        type: "content_block_delta",
        index: 2,
        delta: { type: "text_delta", text: "It rained." },
      },
      { type: "content_block_stop", index: 2 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: MESSAGES_USAGE },
      { type: "message_stop" },
    ],
    dropped: {
      chat: [
        "reply.choices[0].message.content[0].server_tool_use",
        "reply.choices[0].message.content[1].web_search_tool_result",
      ],
      responses: ["reply.output[0].server_tool_use", "reply.output[0].web_search_tool_result"],
    },
  },
  {
    title: "OpenAI's web search call",
    wire: "responses",
    replyBody: RESPONSE,
    events: [
      { type: "response.created", sequence_number: 0, response: { ...RESPONSE, output: [] } },
      ...[SEARCH_CALL, MESSAGE_ITEM].flatMap((item, at) => [
        { type: "response.output_item.added", output_index: at, item },
        { type: "response.output_item.done", output_index: at, item },
      ]),
      { type: "response.completed", sequence_number: 5, response: RESPONSE },
    ],
    dropped: {
      chat: ["reply.choices[0].message.content[0].web_search_call"],
      messages: ["reply.content[0].web_search_call"],
    },
  },
  {
    title: "unrequested logprobs and an image",
    wire: "chat",
    replyBody: {
      ...CHUNK,
      object: "chat.completion",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "It", images: [IMAGE] },
          logprobs: { content: [LOGPROB], refusal: null },
          finish_reason: "stop",
        },
      ],
      usage: CHAT_USAGE,
    },
    events: [
      {
        ...CHUNK,
        choices: [
          {
            index: 0,
            delta: { role: "assistant", content: "It" },
            logprobs: { content: [LOGPROB], refusal: null },
          },
        ],
      },
      { ...CHUNK, choices: [{ index: 0, delta: { images: [IMAGE] } }] },
      { ...CHUNK, choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: CHAT_USAGE },
    ],
    dropped: { messages: ["reply.content[0].logprobs", "reply.content[1].image"] },
  },
];

function respondWith({ wire, replyBody, events }: LossCase): (request: Request) => Response {
  return (request) => {
    if (!/stream/.test(request.url) && !isStreaming) return Response.json(replyBody);
    const text = events
      .map((event) => {
        const name = typeof event["type"] === "string" ? `event: ${event["type"]}\n` : "";
        return `${name}data: ${JSON.stringify(event)}\n\n`;
      })
      .join("");
    const done = wire === "chat" ? "data: [DONE]\n\n" : "";
    return new Response(text + done, { headers: { "content-type": "text/event-stream" } });
  };
}

let isStreaming = false;

async function callWithLosses(testCase: LossCase, api: Api, more: Json): Promise<RawResponse> {
  isStreaming = more["stream"] === true;
  harness.providerResponse = respondWith(testCase);
  const raw = await callApi(harness, api, minimalBody(api, testCase.wire, "hello", more));
  harness.providerResponse = undefined;
  expect([raw.status, raw.text.slice(0, 400)]).toEqual([200, raw.text.slice(0, 400)]);
  return raw;
}

/** The last usage object in a stream. */
function usageIn(text: string): Json | undefined {
  return sseEvents(text)
    .filter(({ data }) => data !== "[DONE]")
    .map(({ data }) => JSON.parse(data) as { usage?: Json; response?: { usage?: Json } })
    .map(({ usage, response }) => usage ?? response?.usage)
    .findLast((usage) => usage !== undefined && usage !== null);
}

function withoutIndexes(paths: unknown): unknown {
  return Array.isArray(paths) ? paths.map((one) => String(one).replaceAll(/\d+/g, "n")) : paths;
}

for (const testCase of LOSS_CASES)
  describe(`${testCase.title}, on ${testCase.wire}`, () => {
    for (const api of APIS) {
      if (api === testCase.wire) continue;
      const dropped = testCase.dropped[api];
      test(`are ${dropped === undefined ? "returned" : "dropped and listed"} on ${api}`, async () => {
        const reply = await callWithLosses(testCase, api, {});
        expect(reply.headers.get("x-postern-dropped")).toBe(dropped?.join(", ") ?? null);
        expect((reply.json["usage"] as Json)["dropped"]).toEqual(dropped);
        const streamed = await callWithLosses(testCase, api, {
          stream: true,
          ...(api === "chat" ? { stream_options: { include_usage: true } } : {}),
        });
        // A stream can have one more block: over Gemini, one before the text is reserved for its signature.
        expect(withoutIndexes(usageIn(streamed.text)?.["dropped"])).toEqual(
          withoutIndexes(dropped),
        );
        expect(usageIn(streamed.text)?.["cost"]).toEqual((reply.json["usage"] as Json)["cost"]);
      });
    }
  });

describe("a dropped field with an unusual name", () => {
  const long = "x".repeat(5_000);
  const cases: readonly (readonly [title: string, name: string, expected: string])[] = [
    ["non-ASCII letters", "größe😀", "gr\\u00f6\\u00dfe\\ud83d\\ude00"],
    ["a line break", "a\r\nset-cookie: b", "a\\u000d\\u000aset-cookie: b"],
    ["5,000 characters", long, `${long.slice(0, 500)}...`],
  ];
  for (const [title, name, expected] of cases)
    for (const stream of [false, true])
      test(`is escaped in the header: ${title}${stream ? " (stream)" : ""}`, async () => {
        const more = { [name]: 1, stream, postern: { lossy: true } };
        const { status, headers } = await callApi(
          harness,
          "responses",
          minimalBody("responses", "messages", "hello", more),
        );
        expect([status, headers.get("x-postern-dropped")]).toEqual([200, expected]);
      });
});

describe("a chat stream without usage", () => {
  test("lists the dropped paths in a comment before [DONE]", async () => {
    const [testCase] = LOSS_CASES;
    if (testCase === undefined) throw new Error("no case");
    const { text } = await callWithLosses(testCase, "chat", { stream: true });
    expect(text).toEndWith(
      `: x-postern-dropped: ${testCase.dropped.chat?.join(", ")}\n\ndata: [DONE]\n\n`,
    );
    expect(usageIn(text)).toBeUndefined();
  });
});

describe("content with an equivalent", () => {
  const ofGemini = LOSS_CASES[1];
  test("returns Gemini's image in the chat message, and as an image call on Responses", async () => {
    if (ofGemini === undefined) throw new Error("no case");
    const chat = await callWithLosses(ofGemini, "chat", {});
    expect(chat.json).toMatchObject({
      choices: [{ message: { content: "done", images: [IMAGE] } }],
    });
    const streamed = await callWithLosses(ofGemini, "chat", { stream: true });
    expect(streamed.text).toContain(`"images":[${JSON.stringify(IMAGE)}]`);
    const responses = await callWithLosses(ofGemini, "responses", {});
    expect(responses.json).toMatchObject({
      output: [{ type: "image_generation_call", result: PIXEL }, { type: "message" }],
    });
  });

  test("sends the image back to the model with its message", async () => {
    if (ofGemini === undefined) throw new Error("no case");
    const { json } = await callWithLosses(ofGemini, "chat", {});
    const [choice] = json["choices"] as readonly { readonly message: Json }[];
    const hello = { role: "user", content: "hello" };
    const again = { role: "user", content: "make it bigger" };
    const { status } = await callApi(harness, "chat", {
      ...minimalBody("chat", "gemini", "x"),
      messages: [hello, choice?.message, again],
    });
    expect(status).toBe(200);
    expect(harness.upstreamRequests.at(-1)?.body["contents"]).toMatchObject([
      { role: "user" },
      {
        role: "model",
        parts: [{ text: "done" }, { inlineData: { mimeType: "image/png", data: PIXEL } }],
      },
      { role: "user" },
    ]);
  });

  test("returns search results as citations", async () => {
    const message = { role: "assistant", content: "It rained [1]." };
    const found = { search_results: [{ title: "Rain", url: "https://example.com/rain" }] };
    const testCase: LossCase = {
      title: "",
      wire: "chat",
      replyBody: {
        ...CHUNK,
        ...found,
        object: "chat.completion",
        choices: [{ index: 0, message, finish_reason: "stop" }],
        usage: CHAT_USAGE,
      },
      events: [
        { ...CHUNK, ...found, choices: [{ index: 0, delta: message }] },
        { ...CHUNK, ...found, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
        { ...CHUNK, choices: [], usage: CHAT_USAGE },
      ],
      dropped: {},
    };
    const cited = { url: "https://example.com/rain", title: "Rain" };
    const messages = await callWithLosses(testCase, "messages", {});
    expect(messages.json).toMatchObject({ content: [{ citations: [cited] }] });
    const responses = await callWithLosses(testCase, "responses", { stream: true });
    expect(responses.text).toContain("response.output_text.annotation.added");
    expect(responses.text).toContain('"url":"https://example.com/rain","title":"Rain"');
  });
});
