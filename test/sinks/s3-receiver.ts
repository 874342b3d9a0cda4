// An S3-compatible server on loopback for tests: it verifies the signature of each presigned request by its own computation, and
// keeps the objects.

import { createHash, createHmac } from "node:crypto";
import { gunzipSync } from "node:zlib";

export interface S3Receiver {
  readonly url: string;
  /** The texts of the objects by their paths, in the order in which they were written. */
  readonly objects: Map<string, string>;
  /** The paths of all requests with a valid signature. */
  readonly writes: string[];
  /** The status of a valid request, after it was stored. */
  status: number;
  readonly stop: () => Promise<void>;
}

export function startS3Receiver(keys: Readonly<Record<string, string>>): S3Receiver {
  const objects = new Map<string, string>();
  const writes: string[] = [];
  const receiver = { url: "", objects, writes, status: 200, stop: () => server.stop(true) };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const url = new URL(request.url);
      const code = await problemOf(request, url, keys);
      if (code !== undefined)
        return new Response(`<Error><Code>${code}</Code></Error>`, { status: 403 });
      const path = decodeURIComponent(url.pathname);
      objects.set(path, gunzipSync(await request.bytes()).toString());
      writes.push(path);
      return new Response(null, { status: receiver.status });
    },
  });
  receiver.url = `http://127.0.0.1:${server.port}`;
  return receiver;
}

async function problemOf(
  { method, headers }: Request,
  url: URL,
  keys: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const query = url.searchParams;
  const [accessKey = "", day = "", region = "", service = ""] = (
    query.get("X-Amz-Credential") ?? ""
  ).split("/");
  const secret = keys[accessKey];
  if (secret === undefined) return "InvalidAccessKeyId";
  const signature = query.get("X-Amz-Signature");
  query.delete("X-Amz-Signature");
  const canonicalQuery = [...query]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join("&");
  const host = `host:${headers.get("host") ?? ""}\n`;
  const canonical = [method, url.pathname, canonicalQuery, host, "host", "UNSIGNED-PAYLOAD"];
  const scope = `${day}/${region}/${service}/aws4_request`;
  const hash = createHash("sha256").update(canonical.join("\n")).digest("hex");
  const text = ["AWS4-HMAC-SHA256", query.get("X-Amz-Date"), scope, hash].join("\n");
  const key = [day, region, service, "aws4_request"].reduce<Buffer>(
    (from, part) => createHmac("sha256", from).update(part).digest(),
    Buffer.from(`AWS4${secret}`),
  );
  const expected = createHmac("sha256", key).update(text).digest("hex");
  return expected === signature ? undefined : "SignatureDoesNotMatch";
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
