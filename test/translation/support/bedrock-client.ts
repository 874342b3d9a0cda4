// Amazon's own client for Bedrock, speaking to an address on the loopback instead.

import { BedrockRuntimeClient } from "@aws-sdk/client-bedrock-runtime";

interface HttpRequestInput {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** The client would speak HTTP/2 without TLS otherwise, which no server here does. */
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
