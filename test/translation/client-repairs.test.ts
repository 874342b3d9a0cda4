// Requests that clients send in a form that is not quite the API's, and that have one meaning: each is answered.

import { afterAll, describe, expect, test } from "bun:test";
import { isObject } from "../../src/base/json.ts";
import {
  type Api,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";

const harness = await startHarness();
afterAll(() => harness.stop());

const USER = { role: "user", content: "hi" };
const LOOK = { name: "look", parameters: { type: "object", properties: {} } };
const NESTED = { type: "function", function: LOOK };

interface Answer {
  readonly message: unknown;
  readonly dropped: readonly string[];
  readonly reply: Json;
  readonly sent: Json;
}

async function send(api: Api, wire: Wire, fields: Json): Promise<Answer> {
  const before = harness.upstreamRequests.length;
  const { json, headers } = await callApi(harness, api, minimalBody(api, wire, "hi", fields));
  const { error } = json;
  return {
    message: isObject(error) ? error["message"] : undefined,
    dropped: headers.get("x-postern-dropped")?.split(", ") ?? [],
    reply: json,
    sent: harness.upstreamRequests[before]?.body ?? {},
  };
}

const EVERY_WIRE = WIRES.map((wire) => ({ wire }));

describe.each(EVERY_WIRE)("a chat at $wire", ({ wire }) => {
  const expectSame = async (fields: Json, usual: Json): Promise<void> => {
    const repaired = await send("chat", wire, fields);
    expect({ fields, message: repaired.message }).toEqual({ fields, message: undefined });
    const plain = await send("chat", wire, usual);
    expect(repaired.sent).toEqual(plain.sent);
  };

  test("takes a schema without a name", async () => {
    const schema = { type: "object", properties: { a: { type: "string" } } };
    const { message } = await send("chat", wire, {
      response_format: { type: "json_schema", json_schema: { schema } },
    });
    expect(message).toBeUndefined();
  });

  test.each(["auto", "required", "none"])("takes the tool choice %s as an object", async (type) => {
    const tools = [NESTED];
    await expectSame({ tools, tool_choice: { type } }, { tools, tool_choice: type });
  });

  test("takes a number of log probabilities, and an output limit of 0", async () => {
    await expectSame({ logprobs: 1 }, { logprobs: true });
    await expectSame({ max_tokens: 0 }, { max_tokens: undefined });
  });

  test("takes functions and custom tools in the form of Responses, beside nested ones", async () => {
    const other = { ...NESTED, function: { ...LOOK, name: "other" } };
    const format = { type: "grammar", syntax: "lark", definition: "start: /a/" };
    const grammar = { syntax: "lark", definition: "start: /a/" };
    await expectSame(
      { tools: [{ type: "function", ...LOOK }, other, { type: "custom", name: "patch", format }] },
      {
        tools: [
          NESTED,
          other,
          { type: "custom", custom: { name: "patch", format: { type: "grammar", grammar } } },
        ],
      },
    );
    await expectSame(
      { tools: [{ type: "function", function: { ...LOOK, type: "function" } }] },
      { tools: [NESTED] },
    );
  });

  test("takes a body of the Responses API, and answers as a chat", async () => {
    const { message, reply, sent } = await send("chat", wire, {
      messages: undefined,
      input: [
        { role: "developer", content: "Be short." },
        { role: "user", content: [{ type: "input_text", text: "find the bug" }] },
        { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
        { type: "function_call_output", call_id: "call_1", output: "line 7" },
      ],
      tools: [{ type: "function", ...LOOK }],
      stream: false,
    });
    expect([message, reply["object"]]).toEqual([undefined, "chat.completion"]);
    for (const text of ["Be short.", "find the bug", "line 7", "look"])
      expect(JSON.stringify(sent)).toContain(text);
  });

  test.each([false, true])(
    "calls a tool by the name that it has (streamed: %p)",
    async (stream) => {
      const name = wire === "chat" || wire === "responses" ? "3d_render" : "3d.render/v2";
      const tools = [{ type: "function", function: { ...LOOK, name } }];
      const USE = { role: "user", content: "Use the tool." };
      const body = minimalBody("chat", wire, "x", {
        messages: [USE],
        tools,
        tool_choice: { type: "function", function: { name } },
        stream,
      });
      const { status, text, headers } = await callApi(harness, "chat", body);
      expect([status, text.match(/"name":"([^"]*)"/)?.[1]]).toEqual([200, name]);
      const takesName = wire === "chat" || wire === "responses";
      expect(headers.get("x-postern-dropped")).toBe(takesName ? null : "tools[0].function.name");
      const call = { id: "call_1", type: "function", function: { name, arguments: "{}" } };
      const { message } = await send("chat", wire, {
        tools,
        messages: [
          USE,
          { role: "assistant", content: null, tool_calls: [call] },
          { role: "tool", tool_call_id: "call_1", content: "done" },
        ],
      });
      expect(message).toBeUndefined();
    },
  );

  test("keeps one call if parallel calls are forbidden", async () => {
    const tools = [NESTED, { ...NESTED, function: { ...LOOK, name: "other" } }];
    const messages = [{ role: "user", content: "[[sim: calls=2]] use a tool" }];
    const { message, reply } = await send("chat", wire, {
      messages,
      tools,
      parallel_tool_calls: false,
    });
    expect(message).toBeUndefined();
    const calls = JSON.stringify(reply).match(/"tool_calls":\[(.*?)\]/)?.[1] ?? "";
    expect(calls.match(/"id"/g) ?? []).toHaveLength(1);
  });
});

describe.each(EVERY_WIRE.filter(({ wire }) => wire !== "messages"))(
  "blocks of Anthropic's API at $wire",
  ({ wire }) => {
    const block = async (content: Json, role = "user"): Promise<Answer> =>
      send("messages", wire, {
        messages:
          role === "user"
            ? [{ role, content: [content, { type: "text", text: "hi" }] }]
            : [USER, { role, content: [content] }, USER],
      });

    test("with plain text are sent as text", async () => {
      const found = await block({
        type: "search_result",
        source: "https://example.com/a",
        title: "Title",
        content: [{ type: "text", text: "What was found." }],
        citations: { enabled: true },
      });
      expect([found.message, found.dropped]).toEqual([undefined, ["messages[0].content[0]"]]);
      for (const text of ["Title", "https://example.com/a", "What was found."])
        expect(JSON.stringify(found.sent)).toContain(text);
      const summary = await block({ type: "compaction", content: "A summary." }, "assistant");
      expect([summary.message, summary.dropped]).toEqual([undefined, ["messages[1].content[0]"]]);
      expect(JSON.stringify(summary.sent)).toContain("A summary.");
    });

    test("lose the wish for citations where the provider has none", async () => {
      const { message } = await block({
        type: "document",
        source: { type: "text", media_type: "text/plain", data: "Text." },
        citations: { enabled: true },
      });
      expect(message).toBeUndefined();
    });

    test("that remove a tool remove it for good, unless it is added again", async () => {
      const tools = [
        { name: "look", input_schema: { type: "object" } },
        { name: "keep", input_schema: { type: "object" } },
      ];
      const reference = { type: "tool_reference", tool_name: "look" };
      const turn = (type: string): Json => ({
        role: "system",
        content: [{ type, tool: reference }],
      });
      const names = async (...turns: Json[]): Promise<readonly boolean[]> => {
        const { message, sent } = await send("messages", wire, {
          tools,
          messages: [USER, ...turns],
        });
        expect(message).toBeUndefined();
        return ["look", "keep"].map((name) => JSON.stringify(sent).includes(`"${name}"`));
      };
      expect(await names(turn("tool_removal"))).toEqual([false, true]);
      expect(await names(turn("tool_removal"), turn("tool_addition"))).toEqual([true, true]);
    });
  },
);
