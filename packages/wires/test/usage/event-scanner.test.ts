import { describe, expect, test } from "bun:test";
import {
  createEventScanner,
  type EventScanner,
  needsParse,
} from "../../src/usage/event-scanner.ts";

const PLAN = {
  textSlots: { delta: 0, other: 1 },
  parseKeys: ["usage"],
  parseTypes: ["done"],
  ignoredTypes: ["audio"],
};

/** "parse", or the text bytes counted in the two slots. */
function scan(scanner: EventScanner, event: string): "parse" | readonly number[] {
  const slots = [0, 0];
  return needsParse(scanner, new TextEncoder().encode(event), slots) ? "parse" : slots;
}

/** Scans the events in order, as one stream. */
function scanAll(...events: readonly string[]): readonly ("parse" | readonly number[])[] {
  const scanner = createEventScanner(PLAN);
  return events.map((event) => scan(scanner, event));
}

describe("event scanner", () => {
  test("counts text by slot, and asks to parse events by key and type", () => {
    expect(
      scanAll(
        '{"delta":"abc","n":1}',
        '{"other":"é\\n\\u00e9"}',
        '{"delta":"a","usage":{}}',
        '{"delta":"a","usage":null}',
        '{"type":"done"}',
        '{"item":{"type":"done"}}',
      ),
    ).toEqual([[3, 0], [0, 5], "parse", [1, 0], "parse", [0, 0]]);
  });

  test("matches an event that differs from the template only in its text", () => {
    const scanner = createEventScanner(PLAN);
    expect(scan(scanner, '{"delta":"abc","n":1}')).toEqual([3, 0]);
    const template = scanner.event;
    expect(scan(scanner, '{"delta":"defgh \\"quoted\\"","n":1}')).toEqual([14, 0]);
    expect(scan(scanner, '{"delta":"","n":1}')).toEqual([0, 0]);
    expect(scanner.event).toBe(template);
  });

  test("counts the text of an event that matches the template in the template's slot", () => {
    expect(scanAll('{"other":"abc"}', '{"other":"defgh"}')).toEqual([
      [0, 3],
      [0, 5],
    ]);
  });

  test.each([
    ["before the text", '{"delta":"abc"}', '{"usage":"abc"}'],
    ["after the text", '{"delta":"a","n":1,"count":1}', '{"delta":"a","n":1,"usage":1}'],
    ["in what looks like the text", '{"delta":"a"}', '{"delta":"a","usage":"b"}'],
  ])("does not match an event that differs %s", (_, first, second) => {
    expect(scanAll(first, second)[1]).toBe("parse");
  });

  test.each<readonly [string, string, string, "parse" | readonly number[]]>([
    ["an event to parse", '{"delta":"a","usage":1}', '{"delta":"b","usage":1}', "parse"],
    [
      "an event of a type to parse",
      '{"delta":"a","type":"done"}',
      '{"delta":"b","type":"done"}',
      "parse",
    ],
    ["an ignored event", '{"delta":"a","type":"audio"}', '{"delta":"bb","type":"audio"}', [0, 0]],
    ["an event with two texts", '{"delta":"a","other":"b"}', '{"delta":"a","other":"cc"}', [1, 2]],
  ])("does not use %s as the template", (_, first, second, expected) => {
    expect(scanAll(first, second)[1]).toEqual(expected);
  });

  test("keeps the template after an event without text", () => {
    const scanner = createEventScanner(PLAN);
    scan(scanner, '{"delta":"a"}');
    const template = scanner.event;
    scan(scanner, '{"n":1}');
    expect(scan(scanner, '{"delta":"bc"}')).toEqual([2, 0]);
    expect(scanner.event).toBe(template);
  });
});
