// A provider with almost no CPU cost: a socket server with prebuilt replies of Chat Completions. It ignores the request, except
// for `stream` and the number of chunks, so that a benchmark measures the gateway and not its provider.

const HEAD_END = Buffer.from("\r\n\r\n");
const REPLY = reply(
  "application/json",
  JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_700_000_000,
    model: "tiny",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "word ".repeat(16).trim(), refusal: null },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: { prompt_tokens: 240, completion_tokens: 16, total_tokens: 256 },
  }),
);
const STREAM_HEAD = Buffer.from(
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
);
const CHUNK = chunk({ choices: [{ index: 0, delta: { content: " word" }, finish_reason: null }] });
const STREAM_END = Buffer.concat([
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  chunk({
    choices: [],
    usage: { prompt_tokens: 240, completion_tokens: 16, total_tokens: 256 },
  }),
  encode("data: [DONE]\n\n"),
  Buffer.from("0\r\n\r\n"),
]);

export interface ConstantProvider {
  readonly url: string;
  readonly stop: () => void;
}

interface Exchange {
  /** Bytes of a request head that has not ended. */
  head: Buffer;
  bodyLeft: number;
  body: string;
}

/** A text `chunks=40 pace=50` in the request asks for 40 chunks, one per 50 ms; without `pace`, one per turn of the event loop. */
export function serveConstantReplies(port = 0): ConstantProvider {
  const server = Bun.listen<Exchange>({
    hostname: "127.0.0.1",
    port,
    socket: {
      open: (socket) => {
        socket.data = { head: Buffer.alloc(0), bodyLeft: 0, body: "" };
      },
      data: receive,
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) };
}

function receive(socket: Bun.Socket<Exchange>, bytes: Buffer): void {
  const { data: exchange } = socket;
  let rest = bytes;
  if (exchange.bodyLeft === 0) {
    const head = Buffer.concat([exchange.head, bytes]);
    const end = head.indexOf(HEAD_END);
    exchange.head = end === -1 ? head : Buffer.alloc(0);
    if (end === -1) return;
    const length = /content-length: (\d+)/i.exec(head.toString("latin1", 0, end))?.[1];
    exchange.bodyLeft = Number(length ?? 0);
    exchange.body = "";
    rest = head.subarray(end + HEAD_END.length);
  }
  exchange.bodyLeft -= rest.length;
  // Long bodies are those of JSON calls, and are not read.
  if (exchange.body.length < 4_096) exchange.body += rest.toString("latin1");
  if (exchange.bodyLeft <= 0) respond(socket, exchange.body);
}

function respond(socket: Bun.Socket<Exchange>, body: string): void {
  if (!body.includes('"stream":true')) {
    socket.write(REPLY);
    return;
  }
  const chunks = Number(/chunks=(\d+)/.exec(body)?.[1] ?? 1);
  const paceMs = Number(/pace=(\d+)/.exec(body)?.[1] ?? 0);
  socket.write(STREAM_HEAD);
  let left = chunks;
  const writeNext = (): void => {
    left -= 1;
    socket.write(left === 0 ? STREAM_END : CHUNK);
    if (left > 0) schedule();
  };
  const schedule = (): void => {
    if (paceMs === 0) setImmediate(writeNext);
    else setTimeout(writeNext, paceMs);
  };
  writeNext();
}

function reply(contentType: string, body: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: ${contentType}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}

function chunk(fields: object): Buffer {
  const event = {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "tiny",
  };
  return encode(`data: ${JSON.stringify({ ...event, ...fields })}\n\n`);
}

/** A chunk of the chunked transfer encoding. */
function encode(text: string): Buffer {
  return Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`);
}
