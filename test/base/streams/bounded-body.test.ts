// A body is read to its end, or to its limit.

import { describe, expect, test } from "bun:test";
import { readBoundedBytes, readBoundedText } from "../../../src/base/streams/bounded-body.ts";

/** Gives chunks of three bytes for as long as it is asked. */
function endless(seen: { given: number; isCancelled: boolean }): ReadableStream<Uint8Array> {
  return new ReadableStream({
    pull: (body) => {
      seen.given += 1;
      body.enqueue(new Uint8Array([1, 2, 3]));
    },
    cancel: () => {
      seen.isCancelled = true;
    },
  });
}

describe("a body with a limit", () => {
  test("is read whole up to the very byte of its limit, and not one byte further", async () => {
    const body = (): ReadableStream<Uint8Array> | null => new Response("0123456789").body;
    expect(String(await readBoundedBytes(body(), 11))).toBe("0123456789");
    expect(String(await readBoundedBytes(body(), 10))).toBe("0123456789");
    expect(await readBoundedBytes(body(), 9)).toBeUndefined();
  });

  test("is read as text within it, and is no text beyond it", async () => {
    const body = (): ReadableStream<Uint8Array> | null => new Response("漢字").body;
    expect(await readBoundedText(body(), 6)).toBe("漢字");
    expect(await readBoundedText(body(), 5).catch(String)).toContain("more than 5 bytes");
    expect(await readBoundedText(null, 0)).toBe("");
  });

  test("that is not there is empty", async () => {
    expect(await readBoundedBytes(null, 0)).toHaveLength(0);
  });

  test("that does not end is given up as soon as it is too long, and its sender is told", async () => {
    const seen = { given: 0, isCancelled: false };
    expect(await readBoundedBytes(endless(seen), 30)).toBeUndefined();
    expect(seen.isCancelled).toBe(true);
    expect(seen.given).toBeLessThan(20);
  });

  test("that breaks off says so", async () => {
    const broken = new ReadableStream<Uint8Array>({
      pull: (body) => body.error(new Error("cut")),
    });
    const error = await readBoundedBytes(broken, 30).catch((thrown: unknown) => thrown);
    expect(String(error)).toContain("cut");
  });
});
