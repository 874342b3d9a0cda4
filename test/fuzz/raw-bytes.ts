// Bytes that are almost HTTP: requests with broken framing, headers and targets, alone and pipelined.

import type { Random } from "./random.ts";

const HOST = "host: 127.0.0.1";

const START_LINES: readonly [string, ...string[]] = [
  "POST /v1/chat/completions HTTP/1.1",
  "POST /v1/messages HTTP/1.1",
  "GET /v1/account HTTP/1.1",
  "GET /healthz HTTP/1.1",
  "GET /healthz HTTP/1.0",
  "GET /healthz HTTP/2.0",
  "GET /healthz HTTP/1.1 ",
  "GET  /healthz HTTP/1.1",
  "GET\t/healthz\tHTTP/1.1",
  "get /healthz HTTP/1.1",
  "GET http://127.0.0.1/healthz HTTP/1.1",
  "GET http://a@b:99999/healthz HTTP/1.1",
  "GET //healthz HTTP/1.1",
  "GET /../healthz HTTP/1.1",
  "GET /healthz?a=%00 HTTP/1.1",
  "GET /healthz#a HTTP/1.1",
  "GET /\x80\xff HTTP/1.1",
  "GET * HTTP/1.1",
  "OPTIONS * HTTP/1.1",
  "OPTIONS /v1/keys HTTP/1.1",
  "CONNECT 127.0.0.1:80 HTTP/1.1",
  "TRACE /healthz HTTP/1.1",
  "HEAD /healthz HTTP/1.1",
  "PRI * HTTP/2.0",
  "POST /v1/keys HTTP/1.1",
  "DELETE /v1/keys/key_1 HTTP/1.1",
];

const HEADER_LINES: readonly [string, ...string[]] = [
  "content-length: 2",
  "content-length: 0",
  "content-length: 02",
  "content-length: +2",
  "content-length: 2, 2",
  "content-length: 2\r\ncontent-length: 2",
  "content-length: 2\r\ncontent-length: 3",
  "content-length: -1",
  "content-length: 18446744073709551616",
  "content-length: 2 ",
  "content-length:\t2",
  "content-length : 2",
  " content-length: 2",
  "transfer-encoding: chunked",
  "transfer-encoding: Chunked",
  "transfer-encoding: chunked, identity",
  "transfer-encoding: identity",
  "transfer-encoding: gzip, chunked",
  "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
  "transfer-encoding: xchunked",
  "transfer-encoding:\x0bchunked",
  "transfer-encoding\t: chunked",
  "expect: 100-continue",
  "expect: 200-ok",
  "connection: close",
  "connection: upgrade\r\nupgrade: websocket",
  "connection: keep-alive, te",
  "host: a\r\nhost: b",
  "host:",
  "x-folded: a\r\n b",
  "x-nul: a\0b",
  "x-bare: a\rb",
  "x-line: a\nb: c",
  ": empty",
  "no colon",
  "x y: z",
  `x-long: ${"a".repeat(20_000)}`,
  "authorization: Bearer \x80\xff",
  "accept-encoding: gzip;q=0, br",
  "content-type: application/json",
  "cookie: a=b; a=c; =; \x01",
];

const BODIES: readonly [string, ...string[]] = [
  "{}",
  "",
  "2\r\n{}\r\n0\r\n\r\n",
  "2;ext=1\r\n{}\r\n0\r\ntrailer: a\r\n\r\n",
  "0\r\n\r\n",
  "00000000000000002\r\n{}\r\n0\r\n\r\n",
  "2\n{}\n0\n\n",
  "ffffffffffffffff\r\n{}\r\n0\r\n\r\n",
  "-1\r\n{}\r\n",
  "2 \r\n{}\r\n0\r\n\r\n",
  "0x2\r\n{}\r\n0\r\n\r\n",
  "2\r\n{}0\r\n\r\n",
  "3\r\n{}\r\n0\r\n\r\n",
];

const LINE_ENDS: readonly [string, ...string[]] = ["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r"];
const FLIPPED_MAX = 4;

/** Latin-1: one character is one byte. */
export function rawBytesFor(random: Random): string {
  let bytes = oneRequest(random);
  while (random.chance(0.3)) bytes += oneRequest(random);
  if (random.chance(0.15)) bytes = bytes.slice(0, random.integer(bytes.length));
  if (random.chance(0.1)) bytes = "\r\n".repeat(random.integer(3)) + bytes;
  if (random.chance(0.2)) bytes = flipped(random, bytes);
  return bytes;
}

function oneRequest(random: Random): string {
  const end = random.pick(LINE_ENDS);
  const headers = random.chance(0.95) ? [HOST] : [];
  while (random.chance(0.6)) headers.push(random.pick(HEADER_LINES));
  return [random.pick(START_LINES), ...headers, "", random.pick(BODIES)].join(end);
}

function flipped(random: Random, bytes: string): string {
  const characters = bytes.split("");
  for (let count = random.integer(FLIPPED_MAX); count >= 0; count--)
    characters[random.integer(characters.length)] = String.fromCharCode(random.integer(256));
  return characters.join("");
}
