import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { formatSse } from "../../../../test/support/format-sse.ts";
import { runs } from "../../../../test/support/full.ts";
import { createSseParser, parseSingle, readSse, type SseEvent } from "../../src/frames/sse.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function parse(chunks: readonly Uint8Array[]): SseEvent[] {
  const parser = createSseParser();
  return [...chunks.flatMap((chunk) => parser.push(chunk)), ...parser.end()];
}

function rawOf(events: readonly SseEvent[]): string[] {
  return events.map((event) => decoder.decode(event.raw));
}

function messagesOf(text: string): unknown[] {
  return parse([encoder.encode(text)]).flatMap((event) => readSse(event) ?? []);
}

// An independent parser that works on whole lines, to compare with.
function plainMessages(text: string): unknown[] {
  const messages: { name: string; data: string }[] = [];
  let name = "";
  let data: string[] = [];
  const lines = text.replace(/^\u{feff}/u, "").split(/\r\n|\n|\r/);
  for (const line of [...lines, ""]) {
    if (line === "") {
      if (data.length > 0) messages.push({ name, data: data.join("\n") });
      name = "";
      data = [];
      continue;
    }
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    if (field === "event") name = value;
  }
  return messages;
}

const line = fc.oneof(
  fc.string({ unit: "grapheme" }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, "")}`),
  fc.constantFrom(
    "data:tight",
    "data",
    "data:",
    ": ping",
    ":",
    "event: delta",
    "event:error",
    "id: 1",
    "retry: 5",
    "junk",
    "datax: 1",
    "data:  two",
  ),
);
const lineEnd = fc.constantFrom("\n", "\r\n", "\r");
const stream = fc
  .array(
    fc.tuple(
      fc.oneof({ weight: 3, arbitrary: line }, { weight: 2, arbitrary: fc.constant("") }),
      lineEnd,
    ),
    { maxLength: 30 },
  )
  .map((lines) => lines.map(([text, end]) => text + end).join(""));

describe("createSseParser", () => {
  test("returns the same events and all bytes, wherever the stream is split", () => {
    fc.assert(
      fc.property(stream, fc.boolean(), (text, withBom) => {
        const bytes = encoder.encode(withBom ? `\u{feff}${text}` : text);
        const whole = rawOf(parse([bytes]));
        expect(whole.join("")).toBe(decoder.decode(bytes));
        for (let at = 0; at <= bytes.length; at++) {
          expect(rawOf(parse([bytes.slice(0, at), bytes.slice(at)]))).toEqual(whole);
        }
        expect(rawOf(parse(Array.from(bytes, (byte) => Uint8Array.of(byte))))).toEqual(whole);
      }),
      { numRuns: runs(300) },
    );
  });

  test("splits every short combination of line ends and letters the same in one chunk and byte by byte", () => {
    const differing: string[] = [];
    const eachFrom = (text: string): void => {
      const bytes = encoder.encode(text);
      const whole = parse([bytes]).map(({ raw, isComplete }) => [decoder.decode(raw), isComplete]);
      const sliced = parse(Array.from(bytes, (byte) => Uint8Array.of(byte)));
      const single = sliced.map(({ raw, isComplete }) => [decoder.decode(raw), isComplete]);
      if (JSON.stringify(whole) !== JSON.stringify(single)) differing.push(text);
      if (text.length < 9) for (const next of ["\r", "\n", "d"]) eachFrom(text + next);
    };
    eachFrom("");
    expect(differing).toEqual([]);
  });

  test("parseSingle returns a chunk that is exactly one event and consumes nothing otherwise", () => {
    const singles: string[] = [];
    const start = fc.oneof(fc.constant(""), stream);
    const event = fc
      .tuple(
        fc.constantFrom("data: 1", "event: a\ndata: 2", ": c", "data: 3\r\nid: 4"),
        fc.constantFrom("\n\n", "\r\n\r\n", "\r\r", "\n"),
      )
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(start, fc.oneof(stream, event), (before, text) => {
        const [single, plain] = [createSseParser(), createSseParser()];
        for (const parser of [single, plain]) parser.push(encoder.encode(before));
        const only = parseSingle(single, encoder.encode(text));
        const events = plain.push(encoder.encode(text));
        if (only !== undefined) {
          singles.push(text);
          expect([only]).toEqual(events);
        } else expect(single.push(encoder.encode(text))).toEqual(events);
        expect(single.end()).toEqual(plain.end());
      }),
      { numRuns: runs(10_000) },
    );
    expect(singles.length).toBeGreaterThan(100);
    expect(parseSingle(createSseParser(), encoder.encode("data: 1\n\n"))?.isComplete).toBe(true);
    expect(
      parseSingle(createSseParser(), encoder.encode("data: 1\n\ndata: 2\n\n")),
    ).toBeUndefined();
  });

  test("agrees with a parser that reads whole lines", () => {
    fc.assert(
      fc.property(stream, (text) => {
        expect(messagesOf(text)).toEqual(plainMessages(text));
      }),
      { numRuns: runs(2_000) },
    );
  });

  test("reads comments, names after data, several data lines, values without a space and a missing final blank line", () => {
    expect(
      messagesOf(
        ": hello\n\ndata: 1\nevent: late\n\ndata:2\ndata: 3\n\nevent: lonely\n\ndata: [DONE]",
      ),
    ).toEqual([
      { name: "late", data: "1" },
      { name: "", data: "2\n3" },
      { name: "", data: "[DONE]" },
    ]);
  });

  test("marks a truncated last event as incomplete", () => {
    const ended = (text: string) => parse([encoder.encode(text)]).map((event) => event.isComplete);
    expect(ended("data: 1\n\ndata: 2\n\n")).toEqual([true, true]);
    expect(ended("data: 1\r\rdata: 2\r\r")).toEqual([true, true]);
    expect(ended("data: 1\n\ndata: {")).toEqual([true, false]);
    expect(ended("data: 1\n\ndata: {\n")).toEqual([true, false]);
    expect(ended("")).toEqual([]);
  });

  test("decodes text split within a character", () => {
    const bytes = encoder.encode("data: 漢字🙂\n\n");
    for (let at = 0; at <= bytes.length; at++) {
      const [event] = parse([bytes.slice(0, at), bytes.slice(at)]);
      expect(event && readSse(event)).toEqual({ name: "", data: "漢字🙂" });
    }
  });

  test("does not copy an event within one chunk", () => {
    const chunk = encoder.encode("data: 1\n\ndata: 2\n\n");
    expect(parse([chunk]).every((event) => event.raw.buffer === chunk.buffer)).toBe(true);
  });

  test("joins an event of megabytes from small chunks", () => {
    const text = `data: ${"x".repeat(3_000_000)}\n\n`;
    const bytes = encoder.encode(text);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 1_000) }, (_, index) =>
      bytes.slice(index * 1_000, (index + 1) * 1_000),
    );
    expect(rawOf(parse(chunks))).toEqual([text]);
  });

  test("rejects an event over the limit in one chunk or many, and a flood of blank lines", () => {
    const limited = (chunks: readonly string[]) => () => {
      const parser = createSseParser(100);
      for (const chunk of chunks) parser.push(encoder.encode(chunk));
    };
    expect(limited(["data: 1\n\n".repeat(50)])).not.toThrow();
    expect(limited([`data: ${"x".repeat(92)}\n\n`])).not.toThrow();
    expect(limited([`data: ${"x".repeat(93)}\n\n`])).toThrow("longer than 100 bytes");
    expect(limited([`data: ${"x".repeat(50)}`, "x".repeat(50)])).toThrow("longer than 100 bytes");
    expect(limited(["\n".repeat(101)])).toThrow("longer than 100 bytes");
  });

  test("reads back what formatSse wrote", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme" }),
        fc.option(fc.stringMatching(/^[a-z._]{1,20}$/), { nil: undefined }),
        (data, event) => {
          const text = formatSse(event === undefined ? { data } : { event, data });
          expect(messagesOf(text)).toEqual([
            { name: event ?? "", data: data.replaceAll(/\r\n|\r/g, "\n") },
          ]);
        },
      ),
    );
  });
});
