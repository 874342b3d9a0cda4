// An endpoint of somebody else's: it keeps what it was sent, and answers as the test wants.

interface Received {
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
  /** The body, read. */
  readonly event: Readonly<Record<string, unknown>>;
}

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  answer: (request: Received) => Response | Promise<Response>;
  readonly close: () => Promise<void>;
}

export function openReceiver(): Receiver {
  const received: Received[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      const body = await request.text();
      const { pathname, search } = new URL(request.url);
      const one = {
        path: pathname + search,
        headers: request.headers,
        body,
        event: JSON.parse(body),
      };
      received.push(one);
      return receiver.answer(one);
    },
  });
  const receiver: Receiver = {
    url: `http://127.0.0.1:${server.port}`,
    received,
    answer: () => new Response(null, { status: 204 }),
    close: () => server.stop(true),
  };
  return receiver;
}
