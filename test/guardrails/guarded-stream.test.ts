// The part of a stream that waits: whatever the chunks, the caller gets the text as if it had been masked whole.

import { describe, expect, test } from "bun:test";
import {
  createBodyStream,
  endBodyStream,
  nextChunk,
  pushChunk,
  setFlow,
} from "@postern/http-client";
import { createSseParser } from "@postern/wires";
import { Fault } from "../../src/base/fault.ts";
import { applyEdits, type Guard, type StreamPart } from "../../src/base/guard.ts";
import { parseObject, valueAt } from "../../src/base/json.ts";
import { ENTITIES, decidedLength, findMatches, maskOf } from "../../src/guardrails/patterns.ts";
import { guardStream } from "../../src/inference/guardrails/guarded-stream.ts";
import { createRandom, type RandomInt, TEST_SEED } from "../support/random.ts";

const encoder = new TextEncoder();

const MASKING: Guard = {
  isRemote: false,
  checkAll: () => Promise.reject(new Error("a stream was checked whole")),
  checkPart: async ({ text, checked, isLast }) => {
    const matches = findMatches(text, ENTITIES) ?? [];
    const decided = isLast ? text.length : Math.max(checked, decidedLength(text, matches));
    const edits = matches.filter(({ start }) => start >= checked && start < decided).map(maskOf);
    return { edits, decided };
  },
};

function hookGuard(check: (part: StreamPart) => void): Guard {
  return {
    ...MASKING,
    isRemote: true,
    checkPart: async (part) => {
      check(part);
      return { edits: [], decided: part.text.length };
    },
  };
}

interface Sent {
  readonly index: number;
  readonly text: string;
}

function eventOf({ index, text }: Sent): string {
  const choices = [{ index, delta: { content: text }, logprobs: { content: [{ token: text }] } }];
  return `data: ${JSON.stringify({ choices })}\n\n`;
}

/** Splits the text at random, into events and then into chunks. */
async function relayed(texts: readonly string[], guard: Guard, random: RandomInt): Promise<string> {
  const rests = [...texts];
  let wire = "";
  while (rests.some((rest) => rest !== "")) {
    const index = random(rests.length);
    const rest = rests[index] ?? "";
    const text = rest.slice(0, 1 + random(12));
    rests[index] = rest.slice(text.length);
    if (text !== "") wire += eventOf({ index, text });
    if (random(5) === 0) wire += ": ping\n\n";
  }
  wire += "data: [DONE]\n\n";
  return await readGuarded(wire, guard, () => 1 + random(300));
}

async function readGuarded(wire: string, guard: Guard, chunkSize: () => number): Promise<string> {
  const source = createBodyStream({ pause: () => {}, resume: () => {}, cancel: () => {} });
  const stream = guardStream(source, createSseParser(), guard);
  const bytes = encoder.encode(wire);
  for (let at = 0; at < bytes.length;) {
    const end = at + chunkSize();
    pushChunk(source, bytes.subarray(at, end));
    at = end;
  }
  endBodyStream(source, true);
  stream.onDenied = (waiting) => {
    denied = Buffer.from(waiting).toString();
  };
  setFlow(stream.body, "read");
  let received = "";
  for (
    let chunk = await nextChunk(stream.body);
    chunk !== undefined;
    chunk = await nextChunk(stream.body)
  )
    if (denied === undefined) received += Buffer.from(chunk).toString();
  return received;
}
let denied: string | undefined;

function contentOf(wire: string, choice: number): string {
  return [...wire.matchAll(/^data: (\{.*)$/gm)]
    .map(([, data = ""]) => parseObject(data))
    .flatMap((event) => (Array.isArray(event?.["choices"]) ? event["choices"] : []))
    .filter((one: unknown) => valueAt({ one }, ["one", "index"]) === choice)
    .map((one: unknown) => String(valueAt({ one }, ["one", "delta", "content"])))
    .join("");
}

function maskedWhole(text: string): string {
  return applyEdits(text, (findMatches(text, ENTITIES) ?? []).map(maskOf));
}

const WORDS = [
  "ada@example.com",
  "4111 1111 1111 1111",
  `sk-${"aB3".repeat(12)}`,
  "a word",
  "\n",
  "é数",
];

describe("guardStream", () => {
  test("reads a long word a few times, however small its parts are", async () => {
    const word = "aB3x".repeat(4_000);
    let read = 0;
    const counting: Guard = {
      ...MASKING,
      checkPart: (part) => {
        read += part.text.length;
        return MASKING.checkPart(part);
      },
    };
    const events = word.match(/.{4}/g) ?? [];
    const wire = events.map((text) => eventOf({ index: 0, text })).join("");
    const received = await readGuarded(`${wire}data: [DONE]\n\n`, counting, () => 150);
    expect(contentOf(received, 0)).toBe(word);
    expect(read).toBeLessThan(30 * word.length);
  });

  test("masks a stream as it would mask the whole text, however it is split", async () => {
    const random = createRandom(TEST_SEED);
    for (let round = 0; round < 60; round++) {
      const texts = [0, 1].map(() => {
        let text = "";
        while (text.length < 100 + random(600)) text += `${WORDS[random(WORDS.length)] ?? ""}. `;
        return text;
      });
      denied = undefined;
      const wire = await relayed(texts.slice(0, 1 + random(2)), MASKING, random);
      expect(contentOf(wire, 0)).toBe(maskedWhole(texts[0] ?? ""));
      expect(wire).not.toContain("4111");
      expect(wire).toEndWith("data: [DONE]\n\n");
    }
  });

  test("passes events that do not change byte for byte, and the keep-alives before those that wait", async () => {
    const words = "plain words ".repeat(40);
    const wire = `${eventOf({ index: 0, text: "ada@exam" })}event: ping\ndata: {"type":"ping"}\n\n${eventOf({ index: 0, text: `ple.org ${words}` })}`;
    denied = undefined;
    const received = await readGuarded(wire, MASKING, () => 60);
    expect(received.indexOf("ping")).toBeLessThan(received.indexOf("choices"));
    expect(contentOf(received, 0)).toBe(`[EMAIL] ${words}`);
    expect(received).not.toContain("logprobs");
    const plain = eventOf({ index: 0, text: words });
    expect(await readGuarded(plain, MASKING, () => 1_000)).toBe(plain);
  });

  test("sends a hook parts of some hundred characters, with the text before them", async () => {
    const parts: StreamPart[] = [];
    const text = Array.from({ length: 300 }, (_, index) => `word${index}`).join(" ");
    const wire = Array.from({ length: Math.ceil(text.length / 10) }, (_, index) =>
      eventOf({ index: 0, text: text.slice(index * 10, index * 10 + 10) }),
    ).join("");
    denied = undefined;
    await readGuarded(
      wire,
      hookGuard((part) => parts.push(part)),
      () => 200,
    );
    expect(parts.map((part) => part.text.slice(part.checked)).join("")).toBe(text);
    expect(parts.length).toBeGreaterThan(3);
    expect(parts.length).toBeLessThan(9);
    expect(parts.slice(1).every(({ checked }) => checked === 128)).toBe(true);
    expect(parts.at(-1)?.isLast).toBe(true);
  });

  test("gives what waits to the meter when a hook denies, and nothing of it to the caller", async () => {
    const text = "x".repeat(500);
    denied = undefined;
    const received = await readGuarded(
      eventOf({ index: 0, text }),
      hookGuard(() => {
        throw new Fault("guardrail_denied", "denied");
      }),
      () => 1_000,
    );
    expect(received).toBe("");
    expect(denied ?? "").toContain(text);
  });
});
