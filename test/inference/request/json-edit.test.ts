import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { inputBound } from "../../../src/inference/metering/input-bound.ts";
import { memberSpans, withChanges, withMembers } from "../../../src/inference/request/json-edit.ts";
import {
  addExtrasToReply,
  addExtrasAtPath,
} from "../../../src/inference/translate/stream-transform.ts";
import { expectLinearCpuTime } from "../../support/cpu-time.ts";
import { runs } from "../../support/full.ts";

const RUNS = { numRuns: runs(400) };

/** White space that JSON allows between two tokens. */
const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);

/** A key or a string with any Unicode, and with unnecessary escapes. */
const quoted = fc.oneof(
  fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text)),
  fc
    .string({ unit: "grapheme-ascii", maxLength: 6 })
    .map(
      (text) =>
        `"${[...text].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"`,
    ),
  fc.constantFrom('"a\\"b"', '"a\\\\"', '"\\\\\\""', '"{"', '"]"', '","', '":"', '"}\\\\"'),
);

const value = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    quoted,
    fc.constantFrom("null", "true", "false", "-0", "1.50", "2e-7", "1E+3"),
    fc.integer().map(String),
    tie("array"),
    tie("object"),
  ),
  array: fc
    .tuple(space, fc.array(tie("value"), { maxLength: 3 }))
    .map(([gap, items]) => `[${gap}${items.join(`${gap},${gap}`)}${gap}]`),
  object: fc
    .tuple(
      space,
      fc.uniqueArray(fc.tuple(quoted, tie("value")), {
        maxLength: 3,
        selector: ([key]) => JSON.parse(key) as string,
      }),
    )
    .map(
      ([gap, members]) =>
        `{${gap}${members.map(([key, inner]) => `${key}${gap}:${gap}${inner}`).join(`${gap},${gap}`)}${gap}}`,
    ),
})).value;

const members = fc.uniqueArray(fc.tuple(quoted, value, space), {
  maxLength: 6,
  selector: ([key]) => JSON.parse(key) as string,
});

function written(list: readonly (readonly [string, string, string])[], around: string): string {
  return `${around}{${list.map(([key, inner, gap]) => `${gap}${key}${gap}:${gap}${inner}${gap}`).join(",")}${around}}${around}`;
}

const change = fc.dictionary(
  fc.oneof(fc.constantFrom("model", "stream", "a", ""), fc.string({ maxLength: 4 })),
  fc.option(value, { nil: undefined }),
  { maxKeys: 4, noNullPrototype: true },
);

describe("editing members of a JSON text", () => {
  test("finds the same members as JSON.parse", () => {
    fc.assert(
      fc.property(members, space, (list, around) => {
        const text = written(list, around);
        const spans = memberSpans(text);
        const json = JSON.parse(text) as Record<string, unknown>;
        expect([...(spans?.members.keys() ?? [])]).toEqual(
          list.map(([key]) => JSON.parse(key) as string),
        );
        for (const [key, span] of spans?.members ?? [])
          expect(JSON.parse(text.slice(span.start, span.end))).toEqual(json[key]);
        expect(text.slice(spans?.start, spans?.end)).toBe(text.trim());
      }),
      RUNS,
    );
  });

  test("applies the changes and keeps every other byte", () => {
    fc.assert(
      fc.property(members, space, change, fc.nat(), (list, around, changes, pick) => {
        const text = written(list, around);
        const spans = memberSpans(text);
        if (spans === undefined) throw new Error("no object");
        const chosen: Record<string, string | undefined> = { ...changes };
        const [key] = list[pick % Math.max(1, list.length)] ?? [];
        if (key !== undefined) chosen[JSON.parse(key) as string] = pick % 2 === 0 ? undefined : "7";
        const edited = withMembers(text, spans, chosen);
        const expected = new Map(Object.entries(JSON.parse(text) as Record<string, unknown>));
        for (const [name, raw] of Object.entries(chosen)) {
          if (raw === undefined) expected.delete(name);
          else expected.set(name, JSON.parse(raw));
        }
        expect(new Map(Object.entries(JSON.parse(edited) as Record<string, unknown>))).toEqual(
          expected,
        );
        for (const [name, inner] of list)
          if (!Object.hasOwn(chosen, JSON.parse(name) as string)) expect(edited).toContain(inner);
      }),
      RUNS,
    );
  });

  test("returns the same bytes without changes", () => {
    fc.assert(
      fc.property(members, space, (list, around) => {
        const text = written(list, around);
        const spans = memberSpans(text);
        expect(spans === undefined ? "" : withMembers(text, spans, {})).toBe(text);
      }),
      RUNS,
    );
  });

  test("rejects duplicate members, even with different escapes", () => {
    fc.assert(
      fc.property(
        members.filter((list) => list.length > 0),
        space,
        fc.nat(),
        (list, around, pick) => {
          const [key, inner, gap] = list[pick % list.length] ?? ["", "", ""];
          const name = JSON.parse(key) as string;
          const spelt = `"${[...name]
            .flatMap((letter) => letter.split(""))
            .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
            .join("")}"`;
          expect(() => memberSpans(written([...list, [spelt, inner, gap]], around))).toThrow(
            "Duplicate field",
          );
        },
      ),
      RUNS,
    );
  });

  test("adds the cost to a usage object at any path, and keeps a text without usage", () => {
    fc.assert(
      fc.property(members, members, space, (outer, inner, around) => {
        const usage = written(
          inner.filter(([key]) => JSON.parse(key) !== "cost"),
          "",
        );
        const text = written(
          [...outer.filter(([key]) => JSON.parse(key) !== "usage"), ['"usage"', usage, ""]],
          around,
        );
        const edited = addExtrasAtPath(`data: ${text}`, 6, ["usage"], { cost: "0.000125" });
        expect((JSON.parse(edited.slice(6)) as { usage: { cost: number } }).usage.cost).toBe(
          0.000125,
        );
        expect(edited.replace('"cost":0.000125,', "").replace('"cost":0.000125', "")).toBe(
          `data: ${text}`,
        );
        expect(addExtrasAtPath(text, 0, ["nothing", "here"], { cost: "1" })).toBe(text);
      }),
      RUNS,
    );
  });

  test("adds the cost to a whole reply, also if `usage` occurs more than once", () => {
    fc.assert(
      fc.property(members, members, space, fc.boolean(), (outer, inner, around, isPlain) => {
        const usage = written(
          inner.filter(([key]) => JSON.parse(key) !== "cost"),
          "",
        );
        const others = outer.filter(([key]) => JSON.parse(key) !== "usage");
        const misleading = isPlain
          ? []
          : [
              ['"said"', JSON.stringify('"usage":{"a":1}'), ""] as const,
              ['"inner"', '{"usage":{"b":"usage"},"c":"\\"usage"}', ""] as const,
            ];
        const text = written([...misleading, ...others, ['"usage"', usage, ""]], around);
        // Safe because the text is a JSON object.
        const reply = JSON.parse(text) as { usage: object };
        const edited = addExtrasToReply(text, reply.usage, { cost: "0.000125" });
        expect(JSON.parse(edited)).toEqual({ ...reply, usage: { cost: 0.000125, ...reply.usage } });
        expect(edited.replace(/"cost":0\.000125,?/, "")).toBe(text);
      }),
      RUNS,
    );
  });

  test("keeps a reply whose usage is not an object, and replaces an existing cost", () => {
    for (const text of [
      '{"usage":null}',
      '{"usage":[1]}',
      '{"usage":"usage"}',
      '{"a":{"usage":{}}}',
    ])
      expect(addExtrasToReply(text, JSON.parse(text).usage, { cost: "1" })).toBe(text);
    expect(addExtrasToReply('{"usage":{"cost":7}}', { cost: 7 }, { cost: "1" })).toBe(
      '{"usage":{"cost":1}}',
    );
    expect(addExtrasToReply('{"usage" : {} }', {}, { cost: "1" })).toBe('{"usage" : {"cost":1} }');
  });

  test("takes linear time", () => {
    const message = `{"role":"user","content":"${"x\\\\".repeat(60)},"}`;
    const OBJECTS = 40_000;
    expectLinearCpuTime((length) => {
      const messages = Array.from({ length }, () => message).join(",");
      const text = `{"messages":[${messages}],"model":"a"}`;
      const spans = memberSpans(text);
      expect(spans?.members.size).toBe(2);
      if (spans === undefined) return;
      const edited = withMembers(text, spans, { model: undefined, stream: "true" });
      expect(edited.length).toBeGreaterThan(1_000_000);
    }, OBJECTS);
  });
});

describe("the text of a changed value", () => {
  const LONG = "12345678901234567890";
  /** What `mutate` does at one place of a value; all else stays the same object. */
  const changed = (json: unknown, pick: number): unknown => {
    if (Array.isArray(json)) {
      const at = json.length === 0 ? 0 : pick % json.length;
      if (pick % 3 === 0) return json.toSpliced(at, 1);
      if (pick % 3 === 1) return json.toSpliced(at, 0, { added: pick });
      return json.map((item: unknown, index) => (index === at ? changed(item, pick >> 2) : item));
    }
    if (typeof json !== "object" || json === null) return `changed ${pick}`;
    const names = Object.keys(json);
    const name = names[pick % Math.max(1, names.length)];
    if (name === undefined || pick % 3 === 0) return { ...json, added: pick, left: undefined };
    // Safe because `name` is one of its members.
    const inner = (json as Record<string, unknown>)[name];
    return { ...json, [name]: pick % 3 === 1 ? undefined : changed(inner, pick >> 2) };
  };

  test("has the changed value, and the bytes of all that did not change", () => {
    fc.assert(
      fc.property(value, space, fc.nat(), (inner, gap, pick) => {
        const text = `${gap}{${gap}"seed"${gap}:${gap}${LONG},"value":${gap}${inner}${gap}}${gap}`;
        const before = JSON.parse(text) as Record<string, unknown>;
        const after = { ...before, value: changed(before["value"], pick) };
        const edited = withChanges(text, before, after);
        // JSON.stringify has no -0.
        const written = JSON.stringify(JSON.parse(edited));
        expect(JSON.parse(written)).toEqual(JSON.parse(JSON.stringify(after)));
        expect(edited).toContain(`"seed"${gap}:${gap}${LONG},"value":${gap}`);
      }),
      RUNS,
    );
  });

  test("is the same text for an equal value", () => {
    fc.assert(
      fc.property(value, space, (inner, gap) => {
        const text = `${gap}{"value":${inner}}${gap}`;
        expect(withChanges(text, JSON.parse(text), JSON.parse(text))).toBe(text);
      }),
      RUNS,
    );
  });

  test("keeps the digits of items beside those that are added or removed", () => {
    const text = `{"a": [ ${LONG}, {"b":${LONG}}, 3 ], "c" : ${LONG} }`;
    const before = JSON.parse(text);
    const [first, second, third] = before.a;
    expect(withChanges(text, before, { ...before, a: ["new", first, second, third] })).toBe(
      `{"a": ["new",${LONG},{"b":${LONG}},3], "c" : ${LONG} }`,
    );
    expect(withChanges(text, before, { ...before, a: [first, third] })).toBe(
      `{"a": [${LONG},3], "c" : ${LONG} }`,
    );
    expect(withChanges(text, before, { c: before.c, d: 1 })).toBe(`{"d":1,"c" : ${LONG} }`);
    expect(withChanges(text, before, { a: before.a })).toBe(
      `{"a": [ ${LONG}, {"b":${LONG}}, 3 ] }`,
    );
  });

  test("renames members, and makes a list of one of an object", () => {
    const text = `{"top_k": ${LONG}, "tool": {"max_n": 1, "keep_me": ${LONG}}}`;
    const { top_k: topK, tool } = JSON.parse(text);
    const after = { topK, tool: [{ maxN: 2, keep_me: tool.keep_me }] };
    const camel = (name: string): string =>
      name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    expect(withChanges(text, JSON.parse(text), after, camel)).toBe(
      `{"topK": ${LONG}, "tool": [{"maxN": 2, "keep_me": ${LONG}}]}`,
    );
  });

  test("has one of two members with the same name", () => {
    const text = `{"a": {"b": 1, "b": 2, "c": 3}, "d": [1]}`;
    const before = JSON.parse(text);
    expect(withChanges(text, before, { ...before, a: { b: 2, c: 4 } })).toBe(
      `{"a": {"b":2,"c":4}, "d": [1]}`,
    );
  });

  test("takes linear time", () => {
    expectLinearCpuTime((length) => {
      const messages = Array.from({ length }, (_, index) => `{"role":"user","n":${index}}`);
      const text = `{"messages":[${messages.join(",")}]}`;
      const before = JSON.parse(text);
      const after = structuredClone(before);
      for (const message of after.messages) message.n += 1;
      expect(JSON.parse(withChanges(text, before, after))).toEqual(after);
    }, 20_000);
  });
});

describe("the upper bound of input tokens", () => {
  const bounds = { imageTokensMax: 1_500, contextTokens: 1_000_000 };
  const of = (json: Record<string, unknown>): number =>
    inputBound(JSON.stringify(json), json, bounds);

  test("is at least the bytes of the text", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "grapheme", maxLength: 200 }), { minLength: 1, maxLength: 5 }),
        (texts) => {
          const json = {
            model: "m",
            messages: texts.map((content) => ({ role: "user", content })),
          };
          expect(of(json)).toBeGreaterThanOrEqual(
            texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0),
          );
        },
      ),
      RUNS,
    );
  });

  test("counts each image at its maximum, and not its base64 as text", () => {
    const image = {
      type: "image_url",
      image_url: { url: `data:image/png;base64,${"A".repeat(100_000)}` },
    };
    const one = of({ messages: [{ role: "user", content: [image] }] });
    const two = of({ messages: [{ role: "user", content: [image, image] }] });
    expect(one).toBeGreaterThanOrEqual(1_500);
    expect(one).toBeLessThan(2_000);
    expect(two).toBeGreaterThanOrEqual(3_000);
  });

  test("counts invalid images as text", () => {
    const words = "tell me a story ".repeat(5_000);
    for (const part of [
      { type: "image_url", image_url: { url: words } },
      { type: "text", text: words },
      { type: "image", source: { type: "base64", data: words } },
    ])
      expect(of({ messages: [{ role: "user", content: [part] }] })).toBeGreaterThanOrEqual(
        words.length,
      );
  });

  test("is the whole context for a file of unknown tokens, and never more", () => {
    for (const part of [
      { type: "file", file: { file_data: "data:application/pdf;base64,AAAA" } },
      { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
      { type: "input_file", file_url: "https://example.com/a.pdf" },
    ])
      expect(of({ messages: [{ role: "user", content: [part] }], input: [part] })).toBe(
        bounds.contextTokens,
      );
    expect(of({ messages: [{ role: "user", content: "x".repeat(3_000_000) }] })).toBe(
      bounds.contextTokens,
    );
  });
});
