// A fake provider on loopback that responds as configured and records requests.

import type { ProviderEndpoint } from "../../src/provider-keys/key-check.ts";

interface ReceivedRequest {
  readonly path: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface FakeProvider {
  readonly url: string;
  readonly requests: readonly ReceivedRequest[];
  /** Sets the handler of the next requests. */
  readonly respondWith: (handler: (request: Request) => Response | Promise<Response>) => void;
  readonly endpoint: (changes?: Partial<ProviderEndpoint["provider"]>) => ProviderEndpoint;
  readonly close: () => Promise<void>;
}

export const GOOD_KEY = "sk-canary-0123456789abcdefghijklmnop-9fQz";

export function openFakeProvider(): FakeProvider {
  const requests: ReceivedRequest[] = [];
  let handle: (request: Request) => Response | Promise<Response> = acceptOnly(GOOD_KEY);
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      requests.push({
        path: new URL(request.url).pathname,
        method: request.method,
        headers: Object.fromEntries(request.headers),
      });
      return handle(request);
    },
  });
  const url = `http://127.0.0.1:${server.port}`;
  return {
    url,
    requests,
    respondWith: (handler) => {
      handle = handler;
    },
    endpoint: (changes) => ({
      provider: {
        id: "openai",
        name: "OpenAI",
        auth: "bearer",
        headers: {},
        paths: { chat: "/chat/completions" },
        isLocal: false,
        ...changes,
      },
      baseUrl: `${url}/v1`,
      credentials: [],
    }),
    close: () => server.stop(true),
  };
}

/** Like most providers: a list of models for one key, 401 for any other. */
export function acceptOnly(key: string): (request: Request) => Response {
  return (request) => {
    const sentKey =
      request.headers.get("authorization")?.replace("Bearer ", "") ??
      request.headers.get("x-api-key") ??
      request.headers.get("api-key");
    if (sentKey === key) return Response.json({ object: "list", data: [] });
    return Response.json(
      {
        error: {
          message: `Incorrect API key provided: ${sentKey}.`,
          type: "invalid_request_error",
        },
      },
      { status: 401 },
    );
  };
}
