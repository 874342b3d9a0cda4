// The steps of a translation: what they change in a request, and how they are undone in its reply.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import type { CanonicalRequest, Tool, ToolChoice } from "../../src/canonical/canonical-request.ts";
import type { JsonObject } from "../../src/json-fields.ts";
import { clientToolsAsFunctions } from "../../src/messages/messages-client-tools.ts";
import { customToolsAsFunctions } from "../../src/passes/custom-tools.ts";
import { TRANSLATION_STEPS } from "../../src/passes/translate-request.ts";
import { undoReply, undoStream } from "../../src/passes/translation-step.ts";

const DIRECTION = { caller: "responses", provider: "messages" } as const;

describe("the table of steps", () => {
  test("has a name for each step", () => {
    const names = TRANSLATION_STEPS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test("changes nothing in a plain request, and nothing in its reply", () => {
    const target = { provider: "openai", model: "m", abilities: {} };
    const plain: CanonicalRequest = {
      model: "m",
      turns: [{ role: "user", parts: [{ type: "text", text: "hi" }] }],
    };
    for (const step of TRANSLATION_STEPS) {
      const context = { ...DIRECTION, target, abilities: {}, losses: [], drop: () => undefined };
      const { request, createUndo } = step.change(plain, context);
      expect([step.name, request, createUndo]).toEqual([step.name, plain, undefined]);
    }
    const reader = { push: () => [], end: () => [] };
    expect(undoStream(reader, [])).toBe(reader);
  });

  test("is undone in a whole reply as in a stream", () => {
    const note: Tool = { type: "custom", name: "note" };
    const changed = customToolsAsFunctions(
      { model: "m", turns: [], tools: [note] },
      { drop: () => undefined },
    );
    expect(changed.request.tools?.map(({ type }) => type)).toEqual(["function"]);
    const call = { type: "tool_call", id: "c1", name: "note", arguments: '{"input":"a"}' } as const;
    const other = { ...call, id: "c2", name: "other" };
    const undos = changed.createUndo === undefined ? [] : [changed.createUndo("r1")];
    const reply = undoReply(
      { choices: [{ parts: [call, other], finish: { reason: "tool_calls" } }] },
      undos,
    );
    expect(reply.choices[0]?.parts).toEqual([{ ...call, custom: true, arguments: "a" }, other]);
  });
});

test("Anthropic's client tools have the schema of their version", () => {
  const propertiesOf = (tool: JsonObject): JsonObject => {
    const { tools = [] } = clientToolsAsFunctions({
      model: "m",
      turns: [],
      tools: [{ type: "native", wire: "messages", name: "x", value: tool }],
    }).request;
    const [written] = tools;
    if (written?.type !== "function") throw new Error("not a function");
    return { ...(written.parameters?.["properties"] as JsonObject) };
  };
  expect(propertiesOf({ type: "text_editor_20250728" })).toHaveProperty("insert_text");
  const older = propertiesOf({ type: "text_editor_20250124" });
  expect(older).not.toHaveProperty("insert_text");
  expect(JSON.stringify(older)).toContain("undo_edit");
  const zooming = propertiesOf({ type: "computer_20251124", enable_zoom: true });
  expect(zooming).toHaveProperty("region");
  const first = JSON.stringify(propertiesOf({ type: "computer_20241022" }));
  expect(first).not.toContain('"triple_click"');
});

describe("streamed arguments of a custom tool", () => {
  const CHARACTERS = ["a", '"', "\\", "/", "\n", "\0", "é", "😀", "\ud83d", "\u2028", "{", "u0041"];
  const decode = (pieces: readonly string[]): string => {
    const at = { choice: 0, part: 0 };
    const events: CanonicalEvent[] = [
      { type: "part_start", ...at, head: { type: "tool_call", id: "c1", name: "note" } },
      ...pieces.map((text) => ({ type: "delta", ...at, text }) as const),
      { type: "part_end", ...at },
    ];
    const note: Tool = { type: "custom", name: "note" };
    const { createUndo } = customToolsAsFunctions(
      { model: "m", turns: [], tools: [note] },
      { drop: () => undefined },
    );
    const undos = createUndo === undefined ? [] : [createUndo("r1")];
    const reader = undoStream({ push: () => events, end: () => [] }, undos);
    const written = reader.push({ name: "", data: "" });
    return written.map((event) => (event.type === "delta" ? event.text : "")).join("");
  };
  const split = (text: string, cuts: readonly number[]): readonly string[] => {
    const at = [...new Set([0, ...cuts.map((cut) => cut % (text.length + 1)), text.length])];
    return at
      .toSorted((left, right) => left - right)
      .map((cut, index, all) => text.slice(all[index - 1] ?? 0, cut));
  };

  test("are decoded wherever they are cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...CHARACTERS), { maxLength: 20 }).map((all) => all.join("")),
        fc.array(fc.nat({ max: 100 }), { maxLength: 8 }),
        fc.constantFrom("", " ", "\n  "),
        fc.boolean(),
        (input, cuts, space, isAscii) => {
          const value = JSON.stringify(input);
          const escaped = isAscii
            ? value.replaceAll(
                /[^\0-\x7f]/g,
                (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
              )
            : value;
          const text = `${space}{${space}"input"${space}:${space}${escaped}${space}}`;
          expect(decode(split(text, cuts))).toBe(input);
        },
      ),
    );
  });

  test.each([
    ['{"text":"a"}', '{"text":"a"}'],
    ['{"note":1,"input":"a"}', "a"],
    ['{"input":{"a":1}}', '{"input":{"a":1}}'],
    ["", ""],
    ['{"input":"cut of', "cut of"],
  ])("of another form are passed on: %s", (text, expected) => {
    expect(decode([text])).toBe(expected);
  });
});

const REQUEST: CanonicalRequest = {
  model: "m",
  turns: [
    { role: "system", parts: [{ type: "text", text: "Be brief." }] },
    { role: "user", parts: [{ type: "text", text: "hi" }] },
  ],
  tools: [{ type: "function", name: "look" }],
  names: { toolChoice: "tool_choice" },
};

function asked(toolChoice: ToolChoice, forcedTools: boolean | undefined) {
  const step = TRANSLATION_STEPS.find(({ name }) => name === "forced tools");
  const target = { provider: "anthropic", model: "m", abilities: { forcedTools } };
  const dropped: string[] = [];
  const drop = (path: string): number => dropped.push(path);
  const context = { ...DIRECTION, target, abilities: target.abilities, losses: [], drop };
  const request = { ...REQUEST, toolChoice };
  const applies = step?.applies(context) === true;
  return { request: applies ? step.change(request, context).request : request, dropped };
}

describe("a forced tool call", () => {
  test("asks for the call after the caller's instructions", () => {
    const { request, dropped } = asked({ type: "tool", name: "look" }, false);
    expect(dropped).toEqual(["tool_choice"]);
    expect(request.toolChoice).toEqual({ type: "auto" });
    expect(request.turns.map(({ role }) => role)).toEqual(["system", "system", "user"]);
    expect(request.turns[1]?.parts).toEqual([
      { type: "text", text: "Answer by calling the tool look." },
    ]);
  });

  test("keeps the tools that are allowed", () => {
    const { request } = asked({ type: "allowed", mode: "required", names: ["look"] }, false);
    expect(request.toolChoice).toEqual({ type: "allowed", mode: "auto", names: ["look"] });
  });

  test("is unchanged at a model that takes the choice, or without a forced call", () => {
    expect(asked({ type: "required" }, undefined).dropped).toEqual([]);
    expect(asked({ type: "auto" }, false).dropped).toEqual([]);
  });
});
