import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../test/support/full.ts";
import {
  isEndedByClose,
  parseBytes,
  type ReplyParser,
  type ReplyHandler,
} from "../src/reply-parser.ts";

/** A parser with its own callbacks. */
const newParser = (callbacks: {
  readonly head: (head: Parameters<ReplyHandler<unknown>["onHead"]>[1]) => void;
  readonly data: (bytes: Uint8Array) => void;
  readonly end: (isReusable: boolean) => void;
}): ReplyParser => ({
  handler: {
    onHead: (_, head) => callbacks.head(head),
    onData: (_, bytes) => callbacks.data(bytes),
    onEnd: (_, isReusable) => callbacks.end(isReusable),
  },
  state: "head",
  remainingBytes: 0,
  partialLine: "",
  partialHead: undefined,
  isReusable: true,
  interimReplies: 0,
  trailers: 0,
});

interface ParseOutcome {
  readonly status: number | undefined;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  /** Number of calls of onEnd. */
  readonly ends: number;
  readonly isReusable: boolean | undefined;
  /** Whether the reply would be complete if the connection closed now. */
  readonly mayClose: boolean;
  readonly error: string | undefined;
}

/** Parses a reply in slices, up to the first error. */
function parseSlices(slices: readonly Buffer[]): ParseOutcome {
  let status: number | undefined;
  let headers: ParseOutcome["headers"] = [];
  const parts: Uint8Array[] = [];
  let ends = 0;
  let isReusable: boolean | undefined;
  let error: string | undefined;
  const parser = newParser({
    head: (head) => {
      if (status !== undefined) throw new TypeError("a second head");
      status = head.status;
      headers = [...head.headers];
    },
    data: (bytes) => {
      if (ends > 0) throw new TypeError("data after the end");
      parts.push(bytes);
    },
    end: (canReuse) => {
      ends += 1;
      isReusable = canReuse;
    },
  });
  try {
    // Copied: slices of a socket do not share memory.
    for (const slice of slices) parseBytes(parser, Buffer.from(slice));
  } catch (parseError) {
    error = String(parseError);
  }
  const body = Buffer.concat(parts).toString("latin1");
  const mayClose = error === undefined && isEndedByClose(parser);
  return { status, headers, body, ends, isReusable, mayClose, error };
}

function sliceAt(bytes: Buffer, offsets: readonly number[]): Buffer[] {
  const ends = [...new Set(offsets.map((offset) => offset % bytes.length)), bytes.length];
  return ends
    .sort((left, right) => left - right)
    .map((end, index, all) => bytes.subarray(index === 0 ? 0 : all[index - 1], end))
    .filter(({ length }) => length > 0);
}

const bytewise = (bytes: Buffer): Buffer[] =>
  Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));

const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");

interface GeneratedReply {
  readonly bytes: Buffer;
  readonly expected: ParseOutcome;
}

const token = fc.stringMatching(/^[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,12}$/);
const value = fc.stringMatching(/^([!-~\xa1-\xff]([ -~\xa1-\xff\t]{0,20}[!-~\xa1-\xff])?)?$/);
const FRAMING = /^(content-length|transfer-encoding|connection)$/i;
const field = fc.tuple(
  token.filter((name) => !FRAMING.test(name)),
  value,
);
const space = fc.constantFrom("", " ", "\t", "  ");

const interim = fc
  .tuple(fc.constantFrom(100, 102, 103), fc.array(field, { maxLength: 2 }))
  .map(([status, fields]) => `HTTP/1.1 ${status} Wait\r\n${linesOf(fields)}\r\n`);

const chunks = fc.array(
  fc.record({
    data: fc.uint8Array({ minLength: 1, maxLength: 40 }),
    upper: fc.boolean(),
    zeros: fc.integer({ min: 0, max: 6 }),
    extension: fc.constantFrom("", "", ";a=b", " ;a", '; q="x;y"', "\t"),
  }),
  { maxLength: 6 },
);

const framing = fc.oneof(
  fc.uint8Array({ maxLength: 120 }).map((body) => ({
    header: `content-length: ${body.length}`,
    body: Buffer.from(body),
    wire: Buffer.from(body),
    closes: false,
  })),
  fc
    .tuple(chunks, fc.array(field, { maxLength: 3 }), fc.constantFrom("chunked", "Chunked"))
    .map(([all, trailers, name]) => ({
      header: `Transfer-Encoding: ${name}`,
      body: Buffer.concat(all.map(({ data }) => data)),
      wire: Buffer.concat([
        ...all.flatMap(({ data, upper, zeros, extension }) => {
          const digits = data.length.toString(16);
          const size = "0".repeat(zeros) + (upper ? digits.toUpperCase() : digits);
          return [latin1(`${size}${extension}\r\n`), Buffer.from(data), latin1("\r\n")];
        }),
        latin1(`0\r\n${linesOf(trailers)}\r\n`),
      ]),
      closes: false,
    })),
  fc.uint8Array({ maxLength: 120 }).map((body) => ({
    header: undefined,
    body: Buffer.from(body),
    wire: Buffer.from(body),
    closes: true,
  })),
);

function linesOf(fields: readonly (readonly [string, string])[]): string {
  return fields.map(([name, text]) => `${name}: ${text}\r\n`).join("");
}

const reply: fc.Arbitrary<GeneratedReply> = fc
  .record({
    interims: fc.array(interim, { maxLength: 3 }),
    minor: fc.constantFrom(1, 1, 1, 0),
    status: fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(204, 304)),
    reason: fc.constantFrom("", " ", " OK", " Not Found at all", " \xe9"),
    fields: fc.array(fc.tuple(field, space), { maxLength: 5 }),
    connection: fc.constantFrom(undefined, undefined, "close", "Close", "keep-alive", "x, close"),
    framing,
  })
  .filter(({ minor, framing: { header } }) => minor === 1 || header?.startsWith("T") !== true)
  .map(({ interims, minor, status, reason, fields, connection, framing }) => {
    const isEmpty = status === 204 || status === 304;
    const headerLines = [
      ...fields.map(([[name, text], around]) => [name, text, around] as const),
      ...(connection === undefined ? [] : [["Connection", connection, ""] as const]),
    ];
    const lines = headerLines.map(
      ([name, text, around]) => `${name}:${around}${text}${around}\r\n`,
    );
    if (framing.header !== undefined) lines.push(`${framing.header}\r\n`);
    const head = `${interims.join("")}HTTP/1.${minor} ${status}${reason}\r\n${lines.join("")}\r\n`;
    const closes = framing.closes && !isEmpty;
    const headers = new Map<string, string>();
    const [name = "", text = ""] = framing.header?.split(": ") ?? [];
    for (const [key, value] of [...headerLines, ...(name === "" ? [] : [[name, text]])] as const) {
      const before = headers.get(key.toLowerCase());
      headers.set(key.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
    }
    return {
      bytes: Buffer.concat([latin1(head), isEmpty ? Buffer.alloc(0) : framing.wire]),
      expected: {
        status,
        headers: [...headers],
        body: isEmpty ? "" : framing.body.toString("latin1"),
        ends: closes ? 0 : 1,
        isReusable: closes ? undefined : minor === 1 && !/close/i.test(connection ?? ""),
        mayClose: true,
        error: undefined,
      },
    };
  });

describe("a reply", () => {
  test("is parsed equally at once, byte by byte and split at every offset", () => {
    fc.assert(
      fc.property(reply, ({ bytes, expected }) => {
        expect(parseSlices([bytes])).toEqual(expected);
        expect(parseSlices(bytewise(bytes))).toEqual(expected);
        for (let at = 1; at < bytes.length; at++)
          expect(parseSlices([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(expected);
      }),
      { numRuns: runs(100) },
    );
  });

  test("is parsed equally in any slices", () => {
    fc.assert(
      fc.property(
        reply,
        fc.array(fc.nat(10_000), { maxLength: 30 }),
        ({ bytes, expected }, offsets) => {
          expect(parseSlices(sliceAt(bytes, offsets))).toEqual(expected);
        },
      ),
      { numRuns: runs(2_000) },
    );
  });

  test("is never complete before its end", () => {
    fc.assert(
      fc.property(reply, ({ bytes, expected }) => {
        for (let at = 0; at < bytes.length; at++) {
          const { ends, mayClose, error, body } = parseSlices([bytes.subarray(0, at)]);
          expect(error).toBeUndefined();
          expect(ends).toBe(0);
          expect(expected.body.startsWith(body)).toBe(true);
          // Only a reply that ends with the connection can end anywhere after its headers.
          if (expected.ends === 1) expect(mayClose).toBe(false);
        }
      }),
      { numRuns: runs(200) },
    );
  });

  test("passes on the chunks of one slice as one", () => {
    const sizes: number[] = [];
    const parser = newParser({
      head: () => {},
      data: ({ length }) => void sizes.push(length),
      end: () => {},
    });
    parseBytes(parser, latin1(`${CHUNKED}3\r\nabc\r\n2\r\nde\r\n1\r\nf`));
    parseBytes(parser, latin1("\r\n4\r\nghij\r\n1\r\nk\r\n0\r\n\r\n"));
    expect(sizes).toEqual([6, 5]);
  });
});

const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;

/** Malformed replies, and the body data that may be passed on before the error. */
const MALFORMED: readonly (readonly [title: string, bytes: string, body?: string])[] = [
  ["has no status line", "hello\r\n\r\n"],
  ["has an empty status line", "\r\nHTTP/1.1 200 OK\r\n\r\n"],
  ["is of HTTP/2", "HTTP/2 200 OK\r\n\r\n"],
  ["is of HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"],
  ["has a lowercase version", "http/1.1 200 OK\r\n\r\n"],
  ["has a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"],
  ["has a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
  ["has a status above 599", "HTTP/1.1 600 OK\r\n\r\n"],
  ["has no space before its reason", "HTTP/1.1 200OK\r\n\r\n"],
  ["ends a line with LF alone", "HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n"],
  ["ends a header with LF alone", `${OK}a: b\ncontent-length: 0\r\n\r\n`],
  ["ends a header with CR alone", `${OK}a: b\rcontent-length: 0\r\n\r\n`],
  ["folds a header with a space", `${OK}a: b\r\n c\r\ncontent-length: 0\r\n\r\n`],
  ["folds a header with a tab", `${OK}a: b\r\n\tc\r\ncontent-length: 0\r\n\r\n`],
  ["has a header without a colon", `${OK}nonsense\r\ncontent-length: 0\r\n\r\n`],
  ["has a header without a name", `${OK}: b\r\ncontent-length: 0\r\n\r\n`],
  ["has a space before a colon", `${OK}content-length : 0\r\n\r\n`],
  ["has a NUL in a header", `${OK}a: b\0c\r\ncontent-length: 0\r\n\r\n`],
  ["has a NUL in a name", `${OK}a\0b: c\r\ncontent-length: 0\r\n\r\n`],
  ["has a NUL in its reason", "HTTP/1.1 200 O\0K\r\ncontent-length: 0\r\n\r\n"],
  ["has a control character in a header", `${OK}a: b\x01c\r\ncontent-length: 0\r\n\r\n`],
  ["has a no-break space before its length", `${OK}content-length:\xa05\r\n\r\nhello`],
  ["has a vertical tab after its coding", `${OK}transfer-encoding: chunked\x0b\r\n\r\n0\r\n\r\n`],
  ["is of HTTP/1.0 and chunked", "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["has two lengths", `${OK}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!`],
  ["has one length twice", `${OK}content-length: 5\r\ncontent-length: 5\r\n\r\nhello`],
  ["has a list of lengths", `${OK}content-length: 5, 5\r\n\r\nhello`],
  ["has a negative length", `${OK}content-length: -1\r\n\r\n`],
  ["has a length with a sign", `${OK}content-length: +5\r\n\r\nhello`],
  ["has a hexadecimal length", `${OK}content-length: 0x5\r\n\r\nhello`],
  ["has a fractional length", `${OK}content-length: 5.0\r\n\r\nhello`],
  ["has an empty length", `${OK}content-length:\r\n\r\nhello`],
  ["has a length above 2^64", `${OK}content-length: ${"9".repeat(30)}\r\n\r\nhello`],
  [
    "has a length and chunks",
    `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ["has an unsupported transfer coding", `${OK}transfer-encoding: gzip\r\n\r\nhello`],
  [
    "has gzip and chunked transfer codings",
    `${OK}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  ],
  ["is chunked twice", `${OK}transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n`],
  [
    "is chunked on two lines",
    `${OK}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n`,
  ],
  ["has transfer coding identity", `${OK}transfer-encoding: identity\r\n\r\nhello`],
  ["has an empty transfer coding", `${OK}transfer-encoding:\r\n\r\nhello`],
  ["has a chunk without a size", `${CHUNKED}\r\nhello\r\n0\r\n\r\n`],
  ["has a chunk with an extension and no size", `${CHUNKED};a=b\r\nhello\r\n0\r\n\r\n`],
  ["has a chunk size that is not a number", `${CHUNKED}xyz\r\nhello\r\n0\r\n\r\n`],
  ["has a negative chunk size", `${CHUNKED}-5\r\nhello\r\n0\r\n\r\n`],
  ["has a chunk size with 0x", `${CHUNKED}0x5\r\nhello\r\n0\r\n\r\n`],
  ["has a space before a chunk size", `${CHUNKED} 5\r\nhello\r\n0\r\n\r\n`],
  ["has text after a chunk size", `${CHUNKED}5 6\r\nhello\r\n0\r\n\r\n`],
  ["has a chunk size above 32 bits", `${CHUNKED}100000005\r\nhello\r\n0\r\n\r\n`],
  ["has a chunk size that overflows", `${CHUNKED}ffffffffffffffffffff\r\nhello`],
  ["has a NUL in an extension", `${CHUNKED}5;\0\r\nhello\r\n0\r\n\r\n`],
  ["has a CR in an extension", `${CHUNKED}5;a\rb\r\nhello\r\n0\r\n\r\n`],
  ["ends a chunk size with LF alone", `${CHUNKED}5\nhello\r\n0\r\n\r\n`],
  ["has a chunk longer than its size", `${CHUNKED}5\r\nhello!\r\n0\r\n\r\n`, "hello"],
  ["has a chunk shorter than its size", `${CHUNKED}6\r\nhello\r\n0\r\n\r\n`, "hello\r"],
  ["ends a chunk with LF alone", `${CHUNKED}5\r\nhello\n0\r\n\r\n`, "hello"],
  ["ends a trailer with LF alone", `${CHUNKED}5\r\nhello\r\n0\r\na: b\n\r\n\r\n`, "hello"],
  ["has a line above the limit", `${CHUNKED}5;${"a".repeat(4_200)}\r\nhello\r\n0\r\n\r\n`],
  ["has a line without an end", `${CHUNKED}5;${"a".repeat(9_000)}`],
  ["has a trailer above the limit", `${CHUNKED}0\r\na: ${"b".repeat(4_200)}\r\n\r\n`],
  ["has too many trailers", `${CHUNKED}0\r\n${"a: b\r\n".repeat(65)}\r\n`],
  ["has headers above the limit", `${OK}a: ${"b".repeat(66_000)}\r\n\r\n`],
  ["has many headers above the limit", `${OK}${"a: b\r\n".repeat(12_000)}\r\n`],
  ["has headers without an end", `${OK}a: ${"b".repeat(70_000)}`],
  ["has too many interim replies", `${"HTTP/1.1 100 Wait\r\n\r\n".repeat(9)}${OK}\r\n`],
  ["switches the protocol", "HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\n"],
  ["has a malformed interim reply", `HTTP/1.1 100 Wait\r\nnonsense\r\n\r\n${OK}\r\n`],
];

/** Complete replies followed by further bytes. */
const TRAILING_BYTES: readonly (readonly [title: string, bytes: string, body: string])[] = [
  ["its length", `${OK}content-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n`, "hello"],
  ["an empty body", `${OK}content-length: 0\r\n\r\n${OK}\r\n`, ""],
  ["its last chunk", `${CHUNKED}5\r\nhello\r\n0\r\n\r\n${OK}\r\n`, "hello"],
  ["a 204", "HTTP/1.1 204 None\r\n\r\nhello", ""],
  ["a 304 with a length", "HTTP/1.1 304 Same\r\ncontent-length: 5\r\n\r\nhello", ""],
];

describe("a malformed reply", () => {
  for (const [title, text, body = ""] of MALFORMED)
    test(`that ${title} is rejected`, () => {
      const bytes = latin1(text);
      const isLong = bytes.length > 2_000;
      const slicings = [[bytes], ...(bytes.length > 20_000 ? [] : [bytewise(bytes)])];
      const step = isLong ? Math.ceil(bytes.length / 20) : 1;
      for (let at = 1; at < bytes.length; at += step)
        slicings.push([bytes.subarray(0, at), bytes.subarray(at)]);
      for (const slices of slicings) {
        const outcome = parseSlices(slices);
        expect(outcome.error).toMatch(/^Error: malformed reply: /);
        expect(body.startsWith(outcome.body)).toBe(true);
        expect(outcome.ends).toBe(0);
        expect(outcome.mayClose).toBe(false);
      }
    });

  for (const [title, text, body] of TRAILING_BYTES)
    test(`with bytes after ${title} is rejected without passing them on`, () => {
      const bytes = latin1(text);
      for (let at = 0; at < bytes.length; at++) {
        const outcome = parseSlices(
          at === 0 ? bytewise(bytes) : [bytes.subarray(0, at), bytes.subarray(at)],
        );
        expect(outcome.error).toMatch(/^Error: malformed reply: /);
        expect(body.startsWith(outcome.body)).toBe(true);
      }
      const atOnce = parseSlices([bytes]);
      expect(atOnce.error).toMatch(/^Error: malformed reply: /);
      expect(body.startsWith(atOnce.body)).toBe(true);
    });

  test("is rejected or accepted independently of slicing, for any bytes", () => {
    const noise = fc.oneof(
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
      fc
        .tuple(
          reply,
          fc.array(fc.tuple(fc.nat(2_000), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        )
        .map(([{ bytes }, changes]) => {
          const mutated = Buffer.from(bytes);
          for (const [offset, byte] of changes) mutated[offset % mutated.length] = byte;
          return mutated;
        }),
      fc
        .array(fc.constantFrom("\r\n", "\r", "\n", "0", "5", ";", OK, CHUNKED, "a: b", " ", "\0"))
        .map((parts) => latin1(parts.join(""))),
    );
    fc.assert(
      fc.property(noise, fc.array(fc.nat(2_000), { maxLength: 10 }), (bytes, offsets) => {
        if (bytes.length === 0) return;
        const atOnce = parseSlices([bytes]);
        for (const outcome of [
          atOnce,
          parseSlices(sliceAt(bytes, offsets)),
          parseSlices(bytewise(bytes)),
        ]) {
          if (outcome.error !== undefined)
            expect(outcome.error).toMatch(/^Error: malformed reply: /);
          expect(outcome.ends).toBeLessThanOrEqual(1);
          expect(outcome.error).toBe(atOnce.error);
        }
      }),
      { numRuns: runs(3_000) },
    );
  });
});

describe("parsing time", () => {
  /** Parses slices and counts body bytes. A quadratic parser would exceed the timeout of these tests. */
  const countBodyBytes = (slices: Iterable<Buffer>): number => {
    let bytes = 0;
    const parser = newParser({
      head: () => {},
      data: ({ length }) => {
        bytes += length;
      },
      end: () => {},
    });
    for (const slice of slices) parseBytes(parser, slice);
    return bytes;
  };

  test("is linear for 16 MiB in chunks of one byte", () => {
    const slice = Buffer.from("1\r\nx\r\n".repeat(8_192));
    const slices = [latin1(CHUNKED), ...Array<Buffer>(2_048).fill(slice)];
    expect(countBodyBytes(slices)).toBe(16 * 1_048_576);
  });

  test("is linear for a head and chunks byte by byte", () => {
    const head = latin1(`${OK}a: ${"b".repeat(60_000)}\r\ntransfer-encoding: chunked\r\n\r\n`);
    const chunks = latin1(`1000;${"a".repeat(4_000)}\r\n${"x".repeat(4_096)}\r\n`.repeat(64));
    expect(countBodyBytes(bytewise(head))).toBe(0);
    expect(countBodyBytes([head, ...bytewise(chunks)])).toBe(64 * 4_096);
  });
});
