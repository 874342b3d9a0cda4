import { describe, expect, test } from "bun:test";
import { readBoundedBytes, readBoundedText } from "../../../src/base/streams/bounded-body.ts";

/** Enqueues chunks of three bytes until canceled. */
function endless(seen: { chunks: number; isCancelled: boolean }): ReadableStream<Uint8Array> {
  return new ReadableStream({
    pull: (body) => {
      seen.chunks += 1;
      body.enqueue(new Uint8Array([1, 2, 3]));
    },
    cancel: () => {
      seen.isCancelled = true;
    },
  });
}

describe("readBoundedBytes and readBoundedText", () => {
  test("read a body up to exactly the limit", async () => {
    const body = (): ReadableStream<Uint8Array> | null => new Response("0123456789").body;
    expect(String(await readBoundedBytes(body(), 11))).toBe("0123456789");
    expect(String(await readBoundedBytes(body(), 10))).toBe("0123456789");
    expect(await readBoundedBytes(body(), 9)).toBeUndefined();
  });

  test("read text, and throw over the limit", async () => {
    const body = (): ReadableStream<Uint8Array> | null => new Response("漢字").body;
    expect(await readBoundedText(body(), 6)).toBe("漢字");
    expect(await readBoundedText(body(), 5).catch(String)).toContain("longer than 5 bytes");
    expect(await readBoundedText(null, 0)).toBe("");
  });

  test("read a missing body as empty", async () => {
    expect(await readBoundedBytes(null, 0)).toHaveLength(0);
  });

  test("cancel an endless body as soon as it exceeds the limit", async () => {
    const seen = { chunks: 0, isCancelled: false };
    expect(await readBoundedBytes(endless(seen), 30)).toBeUndefined();
    expect(seen.isCancelled).toBe(true);
    expect(seen.chunks).toBeLessThan(20);
  });

  test("reject with the error of the stream", async () => {
    const broken = new ReadableStream<Uint8Array>({
      pull: (body) => body.error(new Error("cut")),
    });
    const error = await readBoundedBytes(broken, 30).catch((thrown: unknown) => thrown);
    expect(String(error)).toContain("cut");
  });
});
