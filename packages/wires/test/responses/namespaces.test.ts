// Tools in namespaces, which only the Responses API has: on other wires they are functions with a flat name, and replies are
// written with both names again.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { isObject, type JsonObject } from "../../../../src/base/json.ts";
import { inputBound } from "../../../../src/inference/metering/input-bound.ts";
import { runs } from "../../../../test/support/full.ts";
import { OUTBOUND_WIRES } from "../../src/all-wires.ts";
import type { ToolCallPart } from "../../src/canonical/canonical-parts.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import { InvalidRequest } from "../../src/invalid-request.ts";
import { responsesWire } from "../../src/responses/responses-wire.ts";
import { replyToEvents } from "../reply-to-events.ts";
import { ORIGIN, sseEvents, writeContext, writeEvents } from "../stream-helpers.ts";
import { validateResponsesStream } from "../validate-responses-stream.ts";

const RUNS = { numRuns: runs(200) };
const USER = { type: "message", role: "user", content: "hi" };
/** The strictest provider rules: Google's first character, Amazon's length, OpenAI's characters. */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const FLAT_WIRES = [
  OUTBOUND_WIRES.chat,
  OUTBOUND_WIRES.messages,
  OUTBOUND_WIRES.gemini,
  OUTBOUND_WIRES.converse,
];

const read = (body: object) => responsesWire.readRequest({ model: "m", input: [USER], ...body });
const jsonRoundTrip = (value: unknown) => JSON.parse(JSON.stringify(value)) as JsonObject;
const functionTool = (name: string, more: object = {}) => ({
  type: "function",
  name,
  description: `does ${name}`,
  parameters: { type: "object", properties: {} },
  strict: false,
  ...more,
});
const namespaceTool = (name: string, ...tools: object[]) => ({
  type: "namespace",
  name,
  description: `all of ${name}`,
  tools,
});

interface Named {
  readonly name: string;
  readonly namespace?: string;
}

const word = fc.oneof(
  fc.stringMatching(/^[a-z][a-z0-9_]{0,8}$/),
  fc.stringMatching(/^[A-Za-z0-9_.:/-]{1,80}$/),
  fc.constantFrom("mcp__dict", "a", "a__b", "b", "9lives", "-x", "été", "a b"),
);
const plain = fc.stringMatching(/^p[a-z]{1,6}$/);
const namesOf = fc.uniqueArray(word, { minLength: 1, maxLength: 4 });
const tools = fc
  .tuple(
    fc.uniqueArray(plain, { maxLength: 2 }),
    fc.uniqueArray(fc.tuple(word, namesOf), {
      minLength: 1,
      maxLength: 3,
      selector: ([name]) => name,
    }),
  )
  .map(([alone, spaces]) => ({
    tools: [
      ...alone.map((name) => functionTool(name)),
      ...spaces.map(([name, inner]) =>
        namespaceTool(name, ...inner.map((one) => functionTool(one))),
      ),
    ],
    named: [
      ...alone.map((name): Named => ({ name })),
      ...spaces.flatMap(([namespace, inner]) => inner.map((name): Named => ({ name, namespace }))),
    ],
  }))
  .filter(({ tools: some }) => !isRefused(() => read({ tools: some })));

function isRefused(act: () => unknown): boolean {
  return faultOf(act) !== undefined;
}

function faultOf(act: () => unknown): InvalidRequest | undefined {
  try {
    act();
  } catch (error) {
    if (error instanceof InvalidRequest) return error;
    throw error;
  }
  return undefined;
}

function itemsOf(output: unknown): readonly Named[] {
  return (output as readonly Named[]).map(({ name, namespace }) =>
    namespace === undefined ? { name } : { name, namespace },
  );
}

/** All tool names in a provider's request. */
function toolNames(body: JsonObject): readonly string[] {
  const { tools: direct, toolConfig } = body;
  const values = direct ?? (isObject(toolConfig) ? toolConfig["tools"] : undefined);
  return (values as readonly JsonObject[]).flatMap((tool) => {
    const many = tool["functionDeclarations"] as readonly JsonObject[] | undefined;
    const one = tool["function"] ?? tool["toolSpec"] ?? tool;
    return (many ?? [one as JsonObject]).map(({ name }) => String(name));
  });
}

test("writes members as functions with unique, valid names on every other wire", () => {
  fc.assert(
    fc.property(tools, ({ tools: offered, named }) => {
      const request = read({ tools: offered });
      for (const wire of FLAT_WIRES) {
        const { body, losses } = wire.writeRequest(request, ORIGIN);
        expect(losses).toEqual([]);
        const names = toolNames(jsonRoundTrip(body));
        expect(names).toHaveLength(named.length);
        expect(new Set(names).size).toBe(names.length);
        for (const name of names) expect(name).toMatch(NAME);
        const again = toolNames(
          jsonRoundTrip(wire.writeRequest(read({ tools: offered }), ORIGIN).body),
        );
        expect(again).toEqual([...names]);
      }
    }),
    RUNS,
  );
});

test("writes calls with both names, and sends them back with the flat name", () => {
  fc.assert(
    fc.property(tools, ({ tools: offered, named }) => {
      const request = read({ tools: offered });
      const calls = (request.tools ?? []).map(({ name }, at): ToolCallPart => ({
        type: "tool_call",
        id: `call_${at}`,
        name,
        arguments: "{}",
      }));
      const reply: CanonicalReply = {
        id: "resp_1",
        choices: [{ parts: calls, finish: { reason: "tool_calls" } }],
      };
      const context = { ...writeContext(), request };
      const whole = jsonRoundTrip(responsesWire.writeReply(reply, context).body);
      expect(itemsOf(whole["output"])).toEqual(named);
      expect(whole["tools"]).toEqual(offered);

      const stream = sseEvents(writeEvents(responsesWire, replyToEvents(reply), context));
      expect(validateResponsesStream(stream)).toEqual([]);
      const events = stream.map(({ data }) => JSON.parse(data) as JsonObject);
      const last = (events.at(-1) ?? {})["response"] as JsonObject;
      expect(itemsOf(last["output"])).toEqual(named);
      const added = events.filter(({ type }) => type === "response.output_item.added");
      expect(itemsOf(added.map(({ item }) => item))).toEqual(named);

      const results = calls.map(({ id }) => ({
        type: "function_call_output",
        call_id: id,
        output: "ok",
      }));
      const input = [USER, ...(whole["output"] as readonly JsonObject[]), ...results];
      const next = read({ tools: offered, input });
      const sent = next.turns.flatMap(({ parts }) =>
        parts.flatMap((part) => (part.type === "tool_call" ? [part.name] : [])),
      );
      expect(sent).toEqual(calls.map(({ name }) => name));
      for (const wire of FLAT_WIRES) expect(wire.writeRequest(next, ORIGIN).losses).toEqual([]);
      const same = jsonRoundTrip(responsesWire.writeRequest(next, ORIGIN).body);
      expect(same["tools"]).toEqual(offered);
      const back = (same["input"] as readonly JsonObject[]).filter(
        ({ type }) => type === "function_call",
      );
      expect(itemsOf(back)).toEqual(named);
    }),
    RUNS,
  );
});

test("adds the namespace's description to its first tool, and restores it in the response", () => {
  const offered = [namespaceTool("dict", functionTool("lookup"), functionTool("add"))];
  const request = read({ tools: offered });
  expect(request.tools).toMatchObject([
    { name: "dict__lookup", description: "dict: all of dict\n\ndoes lookup" },
    { name: "dict__add", description: "does add" },
  ]);
  const { body } = responsesWire.writeReply(
    { choices: [{ parts: [], finish: { reason: "stop" } }] },
    { ...writeContext(), request },
  );
  expect(jsonRoundTrip(body)["tools"]).toEqual(offered);
});

test("shortens a long name to a unique one that keeps its end", () => {
  const deep = "n".repeat(60);
  const names = read({
    tools: [
      namespaceTool(`${deep}1`, functionTool("lookup")),
      namespaceTool(`${deep}2`, functionTool("lookup")),
    ],
  }).tools?.map(({ name }) => name);
  expect(new Set(names).size).toBe(2);
  for (const name of names ?? []) expect(name).toMatch(/^.{55,64}$/);
  for (const name of names ?? []) expect(name).toEndWith("__lookup");
});

describe("a tool choice", () => {
  const offered = [
    functionTool("add"),
    namespaceTool("dict", functionTool("lookup"), functionTool("add")),
    namespaceTool("map", functionTool("lookup")),
  ];
  const choice = (value: object) => read({ tools: offered, tool_choice: value }).toolChoice;
  const cases: readonly (readonly [string, object, object])[] = [
    [
      "of a member with its namespace",
      { type: "function", name: "lookup", namespace: "map" },
      { type: "tool", name: "map__lookup" },
    ],
    [
      "of a member whose name a plain function has, too",
      { type: "function", name: "add", namespace: "dict" },
      { type: "tool", name: "dict__add" },
    ],
    [
      "of a plain function whose name a member has, too",
      { type: "function", name: "add" },
      { type: "tool", name: "add" },
    ],
    [
      "of a list with a namespace",
      {
        type: "allowed_tools",
        mode: "required",
        tools: [
          { type: "function", name: "add" },
          { type: "namespace", name: "dict" },
        ],
      },
      { type: "allowed", mode: "required", names: ["add", "dict__lookup", "dict__add"] },
    ],
  ];
  for (const [title, sent, expected] of cases)
    test(`reads a choice ${title}`, () => expect(choice(sent)).toMatchObject(expected));

  test("finds the namespace of a member that is unique", () => {
    const request = read({
      tools: [namespaceTool("dict", functionTool("lookup"))],
      tool_choice: { type: "function", name: "lookup" },
    });
    expect(request.toolChoice).toMatchObject({ type: "tool", name: "dict__lookup" });
    for (const wire of FLAT_WIRES)
      expect(JSON.stringify(wire.writeRequest(request, ORIGIN).body)).toContain("dict__lookup");
    const same = jsonRoundTrip(responsesWire.writeRequest(request, ORIGIN).body);
    expect(same["tool_choice"]).toEqual({ type: "function", name: "lookup", namespace: "dict" });
  });

  test("lists each member of a repeated namespace once", () => {
    const namespace = { type: "namespace", name: "dict" };
    const repeated = Array.from({ length: 1_000 }, () => namespace);
    expect(
      choice({ type: "allowed_tools", mode: "auto", tools: [...repeated, functionTool("add")] }),
    ).toEqual({ type: "allowed", mode: "auto", names: ["dict__lookup", "dict__add", "add"] });
  });

  test("rejects a name that several namespaces have", () => {
    const fault = faultOf(() => choice({ type: "function", name: "lookup" }));
    expect(fault?.path).toBe("tool_choice.name");
    expect(fault?.message).toContain("tool_choice.namespace");
  });

  test("rejects a member that does not exist", () => {
    const fault = faultOf(() => choice({ type: "function", name: "find", namespace: "dict" }));
    expect(fault?.path).toBe("tool_choice");
  });
});

describe("equal flat names", () => {
  const cases: readonly (readonly [string, readonly object[], string])[] = [
    [
      "a function and a member",
      [functionTool("a__b"), namespaceTool("a", functionTool("b"))],
      "tools[1].tools[0]",
    ],
    [
      "a member and a function",
      [namespaceTool("a", functionTool("b")), functionTool("a__b")],
      "tools[1]",
    ],
    [
      "members of two namespaces",
      [namespaceTool("a", functionTool("b__c")), namespaceTool("a__b", functionTool("c"))],
      "tools[1].tools[0]",
    ],
    [
      "a repeated member",
      [namespaceTool("a", functionTool("b"), functionTool("b"))],
      "tools[0].tools[1]",
    ],
  ];
  for (const [title, offered, param] of cases)
    test(`are rejected: ${title}`, () => {
      const fault = faultOf(() => read({ tools: offered }));
      expect(fault?.path).toBe(param);
      expect(fault?.message).toContain("Rename one of them.");
    });
});

test("keeps a namespace with a server tool on its own wire and rejects it on others", () => {
  const searched = namespaceTool("dict", functionTool("lookup"), { type: "web_search" });
  const request = read({ tools: [searched] });
  for (const wire of FLAT_WIRES)
    expect(wire.writeRequest(request, ORIGIN).losses).toEqual([
      { path: "tools[0]", reason: expect.stringMatching(/^The namespace dict contains tools/) },
    ]);
  expect(jsonRoundTrip(responsesWire.writeRequest(request, ORIGIN).body)["tools"]).toEqual([
    searched,
  ]);
  const late = read({
    tools: [namespaceTool("dict", functionTool("lookup", { defer_loading: true }))],
  });
  for (const wire of FLAT_WIRES)
    expect(wire.writeRequest(late, ORIGIN).losses).toMatchObject([
      { path: "tools[0].tools[0].defer_loading" },
    ]);
});

test("counts flat names in the input bound", () => {
  fc.assert(
    fc.property(tools, ({ tools: offered, named }) => {
      const json = { model: "m", input: [USER], tools: offered };
      const bounds = { imageTokensMax: 1, contextTokens: 1_000_000 };
      const bound = inputBound(JSON.stringify(json), json, bounds);
      const longer = read(json).tools?.map(
        ({ name }, at) => name.length - (named[at]?.name.length ?? 0),
      );
      const more = (longer ?? []).reduce((sum, one) => sum + Math.max(one, 0), 0);
      expect(bound).toBeGreaterThanOrEqual(Buffer.byteLength(JSON.stringify(json)) + more);
    }),
    RUNS,
  );
});

test("matches a call of a function found by tool search, whatever its namespace", () => {
  const request = read({
    tools: [functionTool("weather")],
    input: [
      USER,
      {
        type: "function_call",
        call_id: "a",
        name: "weather",
        namespace: "weather",
        arguments: "{}",
      },
      {
        type: "function_call_output",
        call_id: "a",
        name: "weather",
        namespace: "weather",
        output: "rain",
      },
    ],
  });
  expect(request.turns[1]?.parts).toMatchObject([{ type: "tool_call", name: "weather" }]);
  for (const wire of FLAT_WIRES) expect(wire.writeRequest(request, ORIGIN).losses).toEqual([]);
});

test("matches a call without namespace only if its name is unique", () => {
  const called = (...offered: object[]) =>
    read({
      tools: offered,
      input: [
        USER,
        { type: "function_call", call_id: "a", name: "lookup", arguments: "{}" },
        { type: "function_call_output", call_id: "a", output: "ok" },
      ],
    }).turns[1]?.parts;
  const dict = namespaceTool("dict", functionTool("lookup"));
  const map = namespaceTool("map", functionTool("lookup"));
  expect(called(dict)).toMatchObject([{ name: "dict__lookup" }]);
  expect(called(dict, functionTool("lookup"))).toMatchObject([{ name: "lookup" }]);
  expect(called(dict, map)).toMatchObject([{ name: "lookup" }]);
});

test("names Codex's setting in the loss of web search", () => {
  const request = read({ tools: [{ type: "web_search", external_web_access: false }] });
  for (const wire of FLAT_WIRES)
    expect(wire.writeRequest(request, ORIGIN).losses).toEqual([
      { path: "tools[0]", reason: expect.stringContaining('web_search = "disabled"') },
    ]);
});
