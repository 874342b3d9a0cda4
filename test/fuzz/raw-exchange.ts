// Sends raw bytes and half-closes, to the gateway and to two servers that repeat what they read: one on the gateway's
// listener, one on Node's parser. Where both accept a request, they must read the same one.

import { spawn } from "node:child_process";
import { connect } from "node:net";
import path from "node:path";
import { listen } from "../../src/http/listen.ts";
import { parseResponses, type RawResponse } from "../http/raw-client.ts";

const CLOSE_TIMEOUT_MS = 15_000;

export interface ParserPair {
  /** What the two parsers read differently; undefined if they agree. */
  readonly compare: (bytes: string) => Promise<string | undefined>;
  readonly stop: () => Promise<void>;
}

interface RawOutput {
  readonly text: string;
  readonly responses: readonly RawResponse[];
  readonly isClosed: boolean;
}

/** Ends the writing side, and reads until the server closes the connection. */
export function exchangeRaw(port: number, bytes: string): Promise<RawOutput> {
  return new Promise((resolve) => {
    const chunks: string[] = [];
    const socket = connect(port, "127.0.0.1");
    const finish = (isClosed: boolean): void => {
      clearTimeout(timer);
      // A reset leaves no port in TIME_WAIT.
      socket.resetAndDestroy();
      const text = chunks.join("");
      resolve({ text, responses: parseResponses(text), isClosed });
    };
    const timer = setTimeout(() => finish(false), CLOSE_TIMEOUT_MS);
    socket.on("data", (chunk) => chunks.push(chunk.toString("latin1")));
    socket.on("error", () => finish(true));
    socket.on("close", () => finish(true));
    socket.on("end", () => finish(true));
    socket.end(bytes, "latin1");
  });
}

/**
 * What Node refuses and Bun accepts, without a difference in framing: bytes above ASCII in a target, and a repeated
 * `content-length` of one value (RFC 9110 §8.6 allows both readings).
 */
const KNOWN_DIFFERENCES =
  /^[A-Z]+ [^\r\n]*[\x80-\xff]|content-length:[ \t]*(\d+)[ \t]*\r?\n(?:[^\r\n]+\r?\n)*?content-length:[ \t]*\1/m;

/**
 * A chunked body is complete with its last chunk (RFC 9112 §8). Bun runs the request then, and supports no trailers: any byte
 * of one closes the connection, which aborts a call, so nothing after it is read as a request. Node waits for their end.
 */
const UNENDED_TRAILERS = /\n0+(?:;[^\r\n]*)?\r?\n(?!\r?\n)(?:[^\r\n]+\r?\n)*[^\r\n]*$/;

/** Node stops parsing after an upgrade, and Bun ignores it. */
const UPGRADE = /^upgrade:/m;

export async function startParserPair(): Promise<ParserPair> {
  const bun = listen({ host: "127.0.0.1", port: 0 }, async (request) => {
    const body = Buffer.from(await request.arrayBuffer()).toString("latin1");
    return Response.json({ method: request.method, body });
  });
  const node = spawn("node", [path.join(import.meta.dir, "node-http-server.mjs")], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const nodePort = await new Promise<number>((resolve) => {
    node.stdout.setEncoding("utf8").once("data", (line: string) => resolve(Number(line)));
  });
  return {
    compare: async (bytes) => {
      const [left, right] = await Promise.all([
        exchangeRaw(bun.port, bytes),
        exchangeRaw(nodePort, bytes),
      ]);
      const bunRead = left.responses.flatMap(({ status, body }) =>
        status === 200 && body.startsWith("{") ? [readRequest(JSON.parse(body))] : [],
      );
      const nodeRead = (JSON.parse(/^\[.*$/m.exec(right.text)?.[0] ?? "[]") as unknown[]).map(
        readRequest,
      );
      const at = bunRead.findIndex((read, index) => read !== nodeRead[index]);
      const isKnown =
        UPGRADE.test(bytes) ||
        (nodeRead[at] === undefined &&
          (KNOWN_DIFFERENCES.test(bytes) ||
            isBodyUnread(bunRead, at) ||
            (at === bunRead.length - 1 && UNENDED_TRAILERS.test(bytes))));
      return at === -1 || isKnown
        ? undefined
        : `Bun reads ${bunRead[at]} as request ${at + 1}, Node ${nodeRead[at] ?? "nothing"}`;
    },
    stop: async () => {
      node.stdin.end();
      await bun.stop(true);
    },
  };
}

/** Bun answers such a request before it reads a body, and closes the connection if that is broken. */
function isBodyUnread(read: readonly string[], at: number): boolean {
  return at === read.length - 1 && BODILESS_METHODS.has(read[at] ?? "");
}

/** Bun drops the bodies of these, after reading past them. */
const BODILESS_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "TRACE", "CONNECT"]);

/** Its method and body. Targets are not compared: `Request` normalizes them. */
function readRequest(read: unknown): string {
  // Safe because both servers send this.
  const { method, body } = read as { readonly method: string; readonly body: string };
  return BODILESS_METHODS.has(method) ? method : `${method} ${JSON.stringify(body)}`;
}
