// The official AWS client for Bedrock with a loopback endpoint.

import { BedrockRuntimeClient } from "@aws-sdk/client-bedrock-runtime";

interface HttpRequestInput {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** Sends requests with `fetch`: the client's default handler would use HTTP/2 without TLS. */
export function bedrockClient(url: string): BedrockRuntimeClient {
  const handle = async ({ method, path, headers, body }: HttpRequestInput) => {
    const { host: _host, ...rest } = headers;
    const sent = typeof body === "string" ? body : body && new TextDecoder().decode(body);
    const response = await fetch(url + path, { method, headers: rest, body: sent ?? null });
    return {
      response: {
        statusCode: response.status,
        headers: Object.fromEntries(response.headers),
        body: response.body,
      },
    };
  };
  return new BedrockRuntimeClient({
    region: "us-east-1",
    endpoint: url,
    credentials: { accessKeyId: "AKIDTEST", secretAccessKey: "secret" },
    maxAttempts: 1,
    requestHandler: { handle },
  });
}
