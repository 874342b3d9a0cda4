// Invalid requests get a 400 that names the caller's field, on all three APIs, before anything is sent or charged.

import { afterAll, describe, expect, test } from "bun:test";
import { checkExchanges } from "./support/check-exchanges.ts";
import {
  type Api,
  APIS,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";

const harness = await startHarness();
afterAll(async () => {
  await checkExchanges(harness, "bad input");
  await harness.stop();
});

const hello = { role: "user", content: "hello" };
const schema = { type: "object", properties: {} };
const chatTool = (parameters: unknown = schema, name: unknown = "f") => ({
  type: "function",
  function: { name, parameters },
});
const chatCall = (id: unknown = "c1", name = "f", args: unknown = "{}") => ({
  id,
  type: "function",
  function: { name, arguments: args },
});
const chatResult = (id: unknown = "c1") => ({ role: "tool", tool_call_id: id, content: "x" });
const chatCalls = (...calls: readonly unknown[]) => ({
  role: "assistant",
  content: null,
  tool_calls: calls,
});
const itemCall = (id: unknown = "c1", name = "f", args: unknown = "{}") => ({
  type: "function_call",
  call_id: id,
  name,
  arguments: args,
});
const itemResult = (id: unknown = "c1") => ({
  type: "function_call_output",
  call_id: id,
  output: "x",
});
const toolUse = (id: unknown = "c1", name = "f", input: unknown = {}) => ({
  type: "tool_use",
  id,
  name,
  input,
});
const toolResult = (id: unknown = "c1") => ({ type: "tool_result", tool_use_id: id, content: "x" });
const user = (...content: readonly unknown[]) => ({ role: "user", content });
const assistant = (...content: readonly unknown[]) => ({ role: "assistant", content });

interface InvalidCase {
  readonly title: string;
  readonly bodies: Readonly<Partial<Record<Api, readonly [body: Json, path: string]>>>;
}

const CONVERSATIONS: readonly InvalidCase[] = [
  {
    title: "a tool result without a call",
    bodies: {
      chat: [{ messages: [hello, chatResult()] }, "messages[1]"],
      responses: [{ input: [hello, itemResult()] }, "input[1]"],
      messages: [{ messages: [user(toolResult())] }, "messages[0].content[0]"],
    },
  },
  {
    title: "a tool result with an unknown id",
    bodies: {
      chat: [{ messages: [hello, chatCalls(chatCall()), chatResult("c2")] }, "messages[2]"],
      responses: [{ input: [hello, itemCall(), itemResult("c2")] }, "input[2]"],
      messages: [
        { messages: [hello, assistant(toolUse()), user(toolResult("c2"))] },
        "messages[2].content[0]",
      ],
    },
  },
  {
    title: "two results for one call",
    bodies: {
      chat: [
        { messages: [hello, chatCalls(chatCall()), chatResult(), chatResult()] },
        "messages[3]",
      ],
      responses: [{ input: [hello, itemCall(), itemResult(), itemResult()] }, "input[3]"],
      messages: [
        { messages: [hello, assistant(toolUse()), user(toolResult(), toolResult())] },
        "messages[2].content[1]",
      ],
    },
  },
  {
    title: "two calls with one id",
    bodies: {
      chat: [
        { messages: [hello, chatCalls(chatCall(), chatCall()), chatResult()] },
        "messages[1].tool_calls[1]",
      ],
      responses: [{ input: [hello, itemCall(), itemCall(), itemResult()] }, "input[2]"],
      messages: [
        { messages: [hello, assistant(toolUse(), toolUse()), user(toolResult())] },
        "messages[1].content[1]",
      ],
    },
  },
  {
    title: "a call without a result",
    bodies: {
      chat: [{ messages: [hello, chatCalls(chatCall()), hello] }, "messages[1].tool_calls[0]"],
      responses: [{ input: [hello, itemCall(), hello] }, "input[1]"],
      messages: [{ messages: [hello, assistant(toolUse()), hello] }, "messages[1].content[0]"],
    },
  },
  {
    title: "only instructions",
    bodies: {
      chat: [{ messages: [{ role: "system", content: "x" }] }, "messages"],
      responses: [{ input: [{ role: "system", content: "x" }] }, "input"],
    },
  },
  {
    title: "an unknown role",
    bodies: {
      chat: [{ messages: [{ role: "wizard", content: "x" }] }, "messages[0].role"],
      responses: [{ input: [{ role: "wizard", content: "x" }] }, "input[0].role"],
      messages: [{ messages: [{ role: "wizard", content: "x" }] }, "messages[0].role"],
    },
  },
  {
    title: "an unknown content type",
    bodies: {
      chat: [{ messages: [user({ type: "smell" })] }, "messages[0].content[0]"],
      responses: [{ input: [user({ type: "smell" })] }, "input[0].content[0]"],
      messages: [{ messages: [user({ type: "smell" })] }, "messages[0].content[0]"],
    },
  },
  {
    title: "text that is not a string",
    bodies: {
      chat: [{ messages: [user({ type: "text", text: 7 })] }, "messages[0].content[0].text"],
      responses: [{ input: [user({ type: "input_text", text: 7 })] }, "input[0].content[0].text"],
      messages: [{ messages: [user({ type: "text", text: 7 })] }, "messages[0].content[0].text"],
    },
  },
  {
    title: "an image of unknown type",
    bodies: {
      chat: [
        {
          messages: [
            user({ type: "image_url", image_url: { url: "data:image/x-icon;base64,AAAA" } }),
          ],
        },
        "messages[0].content[0]",
      ],
      responses: [
        { input: [user({ type: "input_image", image_url: "data:image/x-icon;base64,AAAA" })] },
        "input[0].content[0]",
      ],
      messages: [
        {
          messages: [
            user({
              type: "image",
              source: { type: "base64", media_type: "image/x-icon", data: "AAAA" },
            }),
          ],
        },
        "messages[0].content[0]",
      ],
    },
  },
  {
    title: "an image that is not base64",
    bodies: {
      chat: [
        {
          messages: [user({ type: "image_url", image_url: { url: "data:image/png;base64,!!!" } })],
        },
        "messages[0].content[0]",
      ],
      responses: [
        { input: [user({ type: "input_image", image_url: "data:image/png;base64,!!!" })] },
        "input[0].content[0]",
      ],
      messages: [
        {
          messages: [
            user({
              type: "image",
              source: { type: "base64", media_type: "image/png", data: "!!!" },
            }),
          ],
        },
        "messages[0].content[0]",
      ],
    },
  },
  {
    title: "an image with an invalid URL",
    bodies: {
      chat: [
        { messages: [user({ type: "image_url", image_url: { url: "cat.png" } })] },
        "messages[0].content[0]",
      ],
      responses: [
        { input: [user({ type: "input_image", image_url: "cat.png" })] },
        "input[0].content[0]",
      ],
      messages: [
        { messages: [user({ type: "image", source: { type: "url", url: "cat.png" } })] },
        "messages[0].content[0]",
      ],
    },
  },
];

const FIELDS: readonly InvalidCase[] = [
  {
    title: "a schema of an unknown type",
    bodies: {
      chat: [{ tools: [chatTool({ type: "thing" })] }, "tools[0].function.parameters.type"],
      responses: [
        { tools: [{ type: "function", name: "f", parameters: { type: "thing" } }] },
        "tools[0].parameters.type",
      ],
      messages: [
        { tools: [{ name: "f", input_schema: { type: "thing" } }] },
        "tools[0].input_schema.type",
      ],
    },
  },
  {
    title: "an output schema with properties as an array",
    bodies: {
      chat: [
        {
          response_format: {
            type: "json_schema",
            json_schema: { name: "x", schema: { type: "object", properties: [] } },
          },
        },
        "response_format.json_schema.schema.properties",
      ],
      responses: [
        {
          text: {
            format: {
              type: "json_schema",
              name: "x",
              schema: { type: "object", properties: [] },
            },
          },
        },
        "text.format.schema.properties",
      ],
      messages: [
        {
          output_config: {
            format: { type: "json_schema", schema: { type: "object", properties: [] } },
          },
        },
        "output_config.format.schema.properties",
      ],
    },
  },
  {
    title: "two tools with one name",
    bodies: {
      chat: [{ tools: [chatTool(), chatTool()] }, "tools[1]"],
      responses: [
        {
          tools: [
            { type: "function", name: "f", parameters: schema },
            { type: "function", name: "f", parameters: schema },
          ],
        },
        "tools[1]",
      ],
      messages: [
        {
          tools: [
            { name: "f", input_schema: schema },
            { name: "f", input_schema: schema },
          ],
        },
        "tools[1]",
      ],
    },
  },
  {
    title: "a tool choice of an unknown tool",
    bodies: {
      chat: [
        { tools: [chatTool()], tool_choice: { type: "function", function: { name: "g" } } },
        "tool_choice",
      ],
      responses: [
        {
          tools: [{ type: "function", name: "f", parameters: schema }],
          tool_choice: { type: "function", name: "g" },
        },
        "tool_choice",
      ],
      messages: [
        { tools: [{ name: "f", input_schema: schema }], tool_choice: { type: "tool", name: "g" } },
        "tool_choice",
      ],
    },
  },
  {
    title: "an unknown tool choice",
    bodies: {
      chat: [{ tools: [chatTool()], tool_choice: "sometimes" }, "tool_choice"],
      responses: [
        {
          tools: [{ type: "function", name: "f", parameters: schema }],
          tool_choice: "sometimes",
        },
        "tool_choice",
      ],
      messages: [
        { tools: [{ name: "f", input_schema: schema }], tool_choice: { type: "sometimes" } },
        "tool_choice",
      ],
    },
  },
  {
    title: "an unknown effort",
    bodies: {
      chat: [{ reasoning_effort: "huge" }, "reasoning_effort"],
      responses: [{ reasoning: { effort: "huge" } }, "reasoning.effort"],
      messages: [{ output_config: { effort: "huge" } }, "output_config.effort"],
    },
  },
  {
    title: "a temperature out of range",
    bodies: {
      chat: [{ temperature: 1e9 }, "temperature"],
      responses: [{ temperature: -1 }, "temperature"],
      messages: [{ temperature: 7 }, "temperature"],
    },
  },
  {
    title: "an output limit below 1",
    bodies: {
      chat: [{ max_completion_tokens: -1 }, "max_completion_tokens"],
      responses: [{ max_output_tokens: -5 }, "max_output_tokens"],
      messages: [{ max_tokens: 1.5 }, "max_tokens"],
    },
  },
  {
    title: "a thinking budget above max_tokens",
    bodies: {
      messages: [
        { max_tokens: 2_000, thinking: { type: "enabled", budget_tokens: 5_000 } },
        "thinking.budget_tokens",
      ],
    },
  },
  {
    title: "too many choices",
    bodies: { chat: [{ n: 1_000 }, "n"] },
  },
  {
    title: "stop sequences that are not strings",
    bodies: {
      chat: [{ stop: [1] }, "stop[0]"],
      messages: [{ stop_sequences: [1] }, "stop_sequences[0]"],
    },
  },
  {
    title: "an invalid postern field",
    bodies: {
      chat: [{ postern: { lossy: "yes" }, seed: 1 }, "postern.lossy"],
      responses: [{ postern: 7 }, "postern"],
      messages: [{ postern: { lossy: 1 } }, "postern.lossy"],
    },
  },
];

/** The wires that need translation; a passthrough request is validated by the provider. */
const otherWires = (api: Api): readonly Wire[] => WIRES.filter((wire) => wire !== api);

for (const { title, bodies } of [...CONVERSATIONS, ...FIELDS])
  describe(title, () => {
    for (const api of APIS) {
      const [body, path] = bodies[api] ?? [];
      if (body === undefined || path === undefined) continue;
      test(`over ${api} gets a 400 that names ${path}`, async () => {
        for (const wire of otherWires(api)) {
          const before = harness.upstreamRequests.length;
          const response = await callApi(harness, api, {
            ...minimalBody(api, wire, "hello"),
            ...body,
          });
          const error = response.json["error"] as Json;
          expect([
            wire,
            response.status,
            String(error["param"]),
            harness.upstreamRequests.length,
          ]).toEqual([wire, 400, expect.stringContaining(path), before]);
          expect(String(error["message"]).length).toBeGreaterThan(10);
        }
      });
    }
  });

describe("postern.lossy", () => {
  const LOSSY_CASES: Readonly<Record<Api, readonly [body: Json, path: string, wire: Wire]>> = {
    chat: [{ n: 2 }, "n", "messages"],
    responses: [{ image: { size: 2 } }, "image", "chat"],
    messages: [{ inference_geo: "us" }, "inference_geo", "responses"],
  };
  for (const api of APIS)
    test(`over ${api} drops the field and lists it`, async () => {
      const [body, path, wire] = LOSSY_CASES[api];
      const request = { ...minimalBody(api, wire, "hello"), ...body };
      const rejected = await callApi(harness, api, request);
      expect([rejected.status, (rejected.json["error"] as Json)["param"]]).toEqual([400, path]);
      const lossy = await callApi(harness, api, { ...request, postern: { lossy: true } });
      expect(lossy.status).toBe(200);
      expect(lossy.headers.get("x-postern-dropped")?.split(", ")).toContain(path);
      expect(JSON.stringify(harness.upstreamRequests.at(-1)?.body)).not.toContain("postern");
    });
});

describe("provider errors", () => {
  const REPLIES: readonly {
    readonly wire: Wire;
    readonly status: number;
    readonly body: unknown;
    readonly expected: readonly [status: number, code: string];
  }[] = [
    {
      wire: "chat",
      status: 400,
      body: {
        error: {
          message: "This model's maximum context length is 8192 tokens.",
          type: "invalid_request_error",
          code: "context_length_exceeded",
          param: "messages",
        },
      },
      expected: [400, "context_length_exceeded"],
    },
    {
      wire: "messages",
      status: 400,
      body: {
        type: "error",
        error: {
          type: "invalid_request_error",
          message: "prompt is too long: 210000 tokens > 200000 maximum",
        },
      },
      expected: [400, "context_length_exceeded"],
    },
    {
      wire: "chat",
      status: 429,
      body: {
        error: {
          message: "You exceeded your current quota.",
          type: "insufficient_quota",
          code: "insufficient_quota",
        },
      },
      expected: [503, "provider_not_configured"],
    },
    {
      wire: "gemini",
      status: 400,
      body: {
        error: {
          code: 400,
          message: "API key not valid.",
          status: "INVALID_ARGUMENT",
          details: [
            { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" },
          ],
        },
      },
      expected: [503, "provider_not_configured"],
    },
    {
      wire: "gemini",
      status: 400,
      body: {
        error: {
          code: 400,
          message:
            "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
          status: "INVALID_ARGUMENT",
        },
      },
      expected: [400, "context_length_exceeded"],
    },
    {
      wire: "converse",
      status: 403,
      body: { message: "User is not authorized to perform this action." },
      expected: [503, "provider_not_configured"],
    },
    {
      wire: "responses",
      status: 400,
      body: {
        error: {
          message: "No such model.",
          type: "invalid_request_error",
          code: "model_not_found",
        },
      },
      expected: [404, "model_not_found"],
    },
  ];
  for (const { wire, status, body, expected } of REPLIES)
    for (const api of APIS)
      test(`${status} on ${wire} over ${api} is ${expected.join(" ")}`, async () => {
        // A success closes the circuit breaker, which earlier failures may have opened.
        await callApi(harness, api, minimalBody(api, wire, "hello"));
        harness.providerResponse = () => Response.json(body, { status });
        const response = await callApi(harness, api, minimalBody(api, wire, "hello"));
        harness.providerResponse = undefined;
        const error = response.json["error"] as Json;
        expect([response.status, error["code"]]).toEqual([...expected]);
        // The provider's `param` names a field of the translated request, not of the caller's.
        if (api !== wire) expect(error["param"] ?? null).toBeNull();
      });
});
