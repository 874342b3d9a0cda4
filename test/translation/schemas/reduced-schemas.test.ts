// JSON schemas for providers that support only a part of JSON Schema.

import { describe, expect, test } from "bun:test";
import {
  CLAUDE_SCHEMA,
  GEMINI_SCHEMA,
  reduceSchema,
  INBOUND_WIRES,
  OUTBOUND_WIRES,
} from "@postern/wires";
import type { JsonObject } from "../../../src/base/json.ts";
import { expectLinearCpuTime } from "../../support/cpu-time.ts";

const closed = (properties: JsonObject): JsonObject => ({
  type: "object",
  properties,
  additionalProperties: false,
});

describe("a schema for Claude", () => {
  test("is unchanged if Claude supports all of it", () => {
    const schema = closed({
      day: { type: "string", format: "date" },
      tags: { type: "array", items: { type: "string" }, minItems: 1 },
    });
    const reduced = reduceSchema(schema, CLAUDE_SCHEMA);
    expect([reduced?.schema, reduced?.isChanged]).toEqual([schema, false]);
  });

  test("has other keywords in the description, and closed objects", () => {
    const schema = {
      type: "object",
      properties: {
        age: { type: "integer", description: "In years.", minimum: 0, maximum: 150 },
        id: { type: "string", format: "int64" },
        minimum: { type: "array", items: { type: "string", maxLength: 3 }, maxItems: 2 },
      },
    };
    expect(reduceSchema(schema, CLAUDE_SCHEMA)?.schema).toEqual(
      closed({
        age: {
          type: "integer",
          description: 'In years.\n\nConstraints: {"minimum":0,"maximum":150}',
        },
        id: { type: "string", description: 'Constraints: {"format":"int64"}' },
        minimum: {
          type: "array",
          description: 'Constraints: {"maxItems":2}',
          items: { type: "string", description: 'Constraints: {"maxLength":3}' },
        },
      }),
    );
  });

  test("is emulated by a tool if it is recursive or a map", () => {
    const node = closed({ next: { $ref: "#/$defs/node" } });
    const recursive = { ...closed({ root: { $ref: "#/$defs/node" } }), $defs: { node } };
    const mutual = {
      ...closed({ a: { $ref: "#/$defs/a" } }),
      $defs: { a: { $ref: "#/$defs/b" }, b: { anyOf: [{ $ref: "#/$defs/a" }, { type: "null" }] } },
    };
    const map = closed({ scores: { type: "object", additionalProperties: { type: "number" } } });
    const unusable: readonly JsonObject[] = [recursive, mutual, map];
    for (const schema of unusable) {
      expect(reduceSchema(schema, CLAUDE_SCHEMA)).toBeUndefined();
      const request = INBOUND_WIRES.chat.readRequest({
        model: "m",
        messages: [{ role: "user", content: "hi" }],
        response_format: { type: "json_schema", json_schema: { name: "n", schema } },
      });
      for (const wire of ["messages", "converse"] as const) {
        const target = { provider: "p", model: "anthropic.claude-sonnet-4-6" };
        const written = OUTBOUND_WIRES[wire].writeRequest(request, target);
        expect(written.emulation).toEqual({ outputTool: "n" });
        expect(JSON.stringify(written.body)).toContain(JSON.stringify(schema["properties"]));
      }
    }
    const shared = {
      ...closed({ a: { $ref: "#/$defs/t" }, b: { $ref: "#/$defs/t" } }),
      $defs: { t: { type: "string" } },
    };
    expect(reduceSchema(shared, CLAUDE_SCHEMA)?.isChanged).toBe(false);
  });
});

test("a schema for Gemini keeps bounds, and describes lengths and patterns", () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", pattern: "^a", minLength: 1 }, age: { minimum: 0 } },
  };
  expect(reduceSchema(schema, GEMINI_SCHEMA)?.schema).toEqual({
    type: "object",
    properties: {
      name: { type: "string", description: 'Constraints: {"pattern":"^a","minLength":1}' },
      age: { minimum: 0 },
    },
  });
});

test("the response header lists a changed schema", () => {
  const request = INBOUND_WIRES.chat.readRequest({
    model: "m",
    messages: [{ role: "user", content: "hi" }],
    response_format: {
      type: "json_schema",
      json_schema: {
        name: "n",
        schema: closed({ a: { type: "integer", minimum: 1, multipleOf: 2 } }),
      },
    },
  });
  for (const wire of ["messages", "converse", "gemini"] as const) {
    const target = { provider: "p", model: "claude-sonnet-4-6 gemini-3-flash" };
    const { losses } = OUTBOUND_WIRES[wire].writeRequest(request, target);
    expect([wire, losses.map(({ path }) => path)]).toEqual([wire, ["response_format.schema"]]);
  }
});

describe("a strict tool", () => {
  const CLOSED = { ...closed({ a: { type: "string" } }), required: ["a"] };
  const OPEN = { type: "object", properties: { a: { type: "integer", maximum: 9 } } };
  const MAP = { type: "object", additionalProperties: { type: "number" } };

  function written(wire: keyof typeof OUTBOUND_WIRES, parameters: JsonObject | undefined) {
    const request = INBOUND_WIRES.chat.readRequest({
      model: "m",
      messages: [{ role: "user", content: "hi" }],
      tools: [{ type: "function", function: { name: "f", parameters, strict: true } }],
    });
    const target = { provider: "p", model: "claude-sonnet-4-6" };
    const { body, losses } = OUTBOUND_WIRES[wire].writeRequest(request, target);
    const tool = JSON.stringify(body["tools"] ?? body["toolConfig"]);
    return {
      tool,
      isStrict: tool.includes('"strict":true'),
      losses: losses.map(({ path, hint }) => [path, hint === true ? "hint" : "changed"]),
    };
  }

  test.each(["messages", "converse"] as const)("for Claude on %s is closed", (wire) => {
    expect(written(wire, CLOSED)).toMatchObject({ isStrict: true, losses: [] });
    const opened = written(wire, OPEN);
    expect(opened).toMatchObject({
      isStrict: true,
      losses: [["tools[0].function.schema", "changed"]],
    });
    expect(opened.tool).toContain('"additionalProperties":false');
    expect(opened.tool).toContain('Constraints: {\\"maximum\\":9}');
    expect(written(wire, undefined).tool).toContain('"additionalProperties":false');
    expect(written(wire, MAP)).toMatchObject({
      isStrict: false,
      losses: [["tools[0].function.strict", "hint"]],
    });
  });

  test.each(["chat", "responses"] as const)("for OpenAI on %s is strict if it can be", (wire) => {
    expect(written(wire, CLOSED)).toMatchObject({ isStrict: true, losses: [] });
    for (const schema of [OPEN, MAP])
      expect(written(wire, schema)).toMatchObject({
        isStrict: false,
        losses: [["tools[0].function.strict", "hint"]],
      });
  });
});

describe("a huge schema", () => {
  const COUNT = 9_990;
  const chain = (count: number, last: JsonObject): JsonObject => ({
    ...closed({ first: { $ref: "#/$defs/d0" } }),
    $defs: Object.fromEntries(
      Array.from({ length: count }, (_, index) => [
        `d${index}`,
        index + 1 === count ? last : closed({ next: { $ref: `#/$defs/d${index + 1}` } }),
      ]),
    ),
  });

  test("of a long chain of definitions is checked for recursion in linear time", () => {
    expectLinearCpuTime((count) => {
      const endless = chain(count, { $ref: "#/$defs/d3" });
      expect(reduceSchema(chain(count, { type: "string" }), CLAUDE_SCHEMA)?.isChanged).toBe(false);
      expect(reduceSchema(endless, CLAUDE_SCHEMA)).toBeUndefined();
    }, COUNT);
  });

  test("beyond the limit gets a 400 that names the field", () => {
    const read = (count: number) => {
      const names = Array.from({ length: count }, (_, index) => [`p${index}`, { type: "string" }]);
      const parameters = { type: "object", properties: Object.fromEntries(names) };
      const tools = [{ type: "function", function: { name: "f", parameters } }];
      return INBOUND_WIRES.chat.readRequest({
        model: "m",
        messages: [{ role: "user", content: "hi" }],
        tools,
      });
    };
    expect(read(9_000).tools).toHaveLength(1);
    expect(() => read(10_000)).toThrow(
      "`tools[0].function.parameters` can have at most 10000 schemas of properties and items. Send a smaller schema, or split the tool.",
    );
  });
});
