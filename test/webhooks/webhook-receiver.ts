// A webhook endpoint that records requests and responds as the test says.

interface ReceivedRequest {
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
  /** The parsed body. */
  readonly event: Readonly<Record<string, unknown>>;
}

export interface WebhookReceiver {
  readonly url: string;
  readonly received: ReceivedRequest[];
  respond: (request: ReceivedRequest) => Response | Promise<Response>;
  readonly close: () => Promise<void>;
}

export function startReceiver(): WebhookReceiver {
  const received: ReceivedRequest[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      const body = await request.text();
      const { pathname, search } = new URL(request.url);
      const incoming = {
        path: pathname + search,
        headers: request.headers,
        body,
        event: JSON.parse(body),
      };
      received.push(incoming);
      return receiver.respond(incoming);
    },
  });
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${server.port}`,
    received,
    respond: () => new Response(null, { status: 204 }),
    close: () => server.stop(true),
  };
  return receiver;
}
