// Replies that the gateway ends at a stop sequence, whole and streamed.

import { describe, expect, test } from "bun:test";
import { array, assert as assertProperty, constantFrom, property } from "fast-check";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { WireStreamReader } from "../../src/canonical/wire-interfaces.ts";
import { cutReply, cutStream } from "../../src/passes/cut-at-stops.ts";

const FINISH = { reason: "stop" } as const;

function wholeText(text: string, stops: readonly string[]) {
  const reply: CanonicalReply = {
    choices: [{ parts: [{ type: "text", text }], finish: FINISH }],
  };
  const [choice] = cutReply(reply, stops).choices;
  const parts = choice?.parts ?? [];
  return {
    text: parts.map((part) => (part.type === "text" ? part.text : "")).join(""),
    finish: choice?.finish,
  };
}

/** A reader whose events are given, one for each push. */
function readerOf(events: readonly CanonicalEvent[]): WireStreamReader {
  let next = 0;
  return {
    push: () => {
      const event = events[next];
      next += 1;
      return event === undefined ? [] : [event];
    },
    end: () => [],
  };
}

function cutEvents(
  events: readonly CanonicalEvent[],
  stops: readonly string[],
): readonly (readonly CanonicalEvent[])[] {
  const reader = cutStream(readerOf(events), stops);
  return events.map(() => reader.push({ name: "", data: "" }));
}

function textEvents(pieces: readonly string[], choice = 0): readonly CanonicalEvent[] {
  return [
    { type: "part_start", choice, part: 0, head: { type: "text" } },
    ...pieces.map((text): CanonicalEvent => ({ type: "delta", choice, part: 0, text })),
    { type: "part_end", choice, part: 0 },
    { type: "finish", choice, finish: FINISH },
  ];
}

function streamedText(pieces: readonly string[], stops: readonly string[]) {
  const events = cutEvents(textEvents(pieces), stops).flat();
  const finish = events.find((event) => event.type === "finish");
  return {
    text: events.map((event) => (event.type === "delta" ? event.text : "")).join(""),
    finish: finish?.type === "finish" ? finish.finish : undefined,
  };
}

test.each([
  ["before the sequence", "Act: look\nObservation: sunny", ["\nObservation"], "Act: look"],
  ["at the first of two", "a STOP b HALT c", ["HALT", "STOP"], "a "],
  ["without what follows", "STOP after", ["STOP"], ""],
])("a whole reply ends %s", (_, text, stops, kept) => {
  expect(wholeText(text, stops).text).toBe(kept);
  expect(wholeText(text, stops).finish?.reason).toBe("stop_sequence");
});

test.each([
  ["complete first", "a\n\nb", ["\n\n", "\n"], "\n"],
  ["complete first, though it begins later", "bab", ["bab", "a"], "a"],
  ["longer, of two that are complete at once", "xSTOP", ["OP", "STOP"], "STOP"],
])("the sequence that is %s ends the reply", (_, text, stops, stopSequence) => {
  const finish = { reason: "stop_sequence" as const, stopSequence };
  expect(wholeText(text, stops).finish).toEqual(finish);
  expect(streamedText([text], stops).finish).toEqual(finish);
  expect(streamedText(Array.from(text), stops).finish).toEqual(finish);
});

test("a reply without the sequence stays as it is", () => {
  expect(wholeText("a STO b", ["STOP"])).toEqual({ text: "a STO b", finish: FINISH });
});

describe("a stream", () => {
  test("passes text on at once unless it may begin a sequence", () => {
    const pieces = ["one ", "two S", "T", "AR", " three ST", "OP four"];
    const written = cutEvents(textEvents(pieces), ["STOP"]).map((events) =>
      events.map((event) => (event.type === "delta" ? event.text : "")).join(""),
    );
    expect(written.slice(1, 7)).toEqual(["one ", "two ", "", "STAR", " three ", ""]);
  });

  test("writes what it held back at the end of the part", () => {
    expect(streamedText(["a ST"], ["STOP"])).toEqual({ text: "a ST", finish: FINISH });
  });

  test("ends the open parts once, and leaves out calls after the sequence", () => {
    const events = cutEvents(
      [
        ...textEvents(["a STOP b"]).slice(0, 3),
        {
          type: "part_start",
          choice: 0,
          part: 1,
          head: { type: "tool_call", id: "c", name: "look" },
        },
        { type: "delta", choice: 0, part: 1, text: "{}" },
        { type: "part_end", choice: 0, part: 1 },
        { type: "finish", choice: 0, finish: { reason: "tool_calls" } },
      ],
      ["STOP"],
    ).flat();
    expect(events.map(({ type }) => type)).toEqual(["part_start", "delta", "part_end", "finish"]);
  });

  test("searches no reasoning", () => {
    const events: readonly CanonicalEvent[] = [
      { type: "part_start", choice: 0, part: 0, head: { type: "reasoning" } },
      { type: "delta", choice: 0, part: 0, text: "think STOP more" },
      { type: "part_end", choice: 0, part: 0 },
      { type: "finish", choice: 0, finish: FINISH },
    ];
    expect(cutEvents(events, ["STOP"]).flat()).toEqual([...events]);
  });

  test("ends one choice and not the others", () => {
    const both = [...textEvents(["a STOP"]), ...textEvents(["b"], 1)];
    const events = cutEvents(both, ["STOP"]).flat();
    const finishes = events.flatMap((event) =>
      event.type === "finish" ? [[event.choice, event.finish.reason]] : [],
    );
    expect(finishes).toEqual([
      [0, "stop_sequence"],
      [1, "stop"],
    ]);
  });

  test("has the text and finish of the whole reply, however it is split", () => {
    const letters = constantFrom("a", "b", "\n", "ab", "S", "ST", "STOP");
    const text = array(letters, { maxLength: 12 });
    const stops = array(constantFrom("a", "ab", "ba", "\n", "\n\n", "STOP", "bab", "aab", "TO"), {
      minLength: 1,
      maxLength: 3,
    });
    assertProperty(
      property(text, stops, (pieces, sequences) => {
        expect(streamedText(pieces, sequences)).toEqual(wholeText(pieces.join(""), sequences));
      }),
    );
  });
});
