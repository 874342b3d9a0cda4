// Cloud accounts against servers that verify what they receive: AWS signatures are recomputed from the specification,
// Google's JWT assertions are verified with the public key.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createHash, createHmac, generateKeyPairSync, verify } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { MINUTE_MS } from "../../../src/base/time.ts";
import { checkProviders } from "../../../src/commands/doctor/check-providers.ts";
import { readConfig } from "../../../src/config/config.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  bodyOf,
  errorOf,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
} from "../support/harness.ts";
import { startFaultyProvider } from "../support/routing-harness.ts";

interface Cloud {
  readonly url: string;
  readonly requests: { readonly url: URL; readonly headers: Headers; readonly body: string }[];
  readonly stop: () => Promise<void>;
}

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0).toReversed()) await stop();
});

/** A simulator behind an authentication check: a response of `reject` is sent instead of the simulator's. */
function startCloud(reject: (request: Request, body: string) => Response | undefined): Cloud {
  const simulator = startFaultyProvider();
  const requests: Cloud["requests"] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      const body = await request.text();
      const url = new URL(request.url);
      requests.push({ url, headers: request.headers, body });
      const rejection = reject(request, body);
      if (rejection !== undefined) return rejection;
      return fetch(simulator.url + simulatorPath(url), {
        method: "POST",
        headers: request.headers,
        body: withModel(url, body),
      });
    },
  });
  const stop = async (): Promise<void> => {
    await server.stop(true);
    await simulator.stop();
  };
  running.push(stop);
  return { url: `http://127.0.0.1:${server.port}`, requests, stop };
}

const RAW_PREDICT = /\/publishers\/anthropic\/models\/([^/:]+):(rawPredict|streamRawPredict)$/;

// The simulator has Anthropic's own paths; Vertex puts the model into the path.
function simulatorPath(url: URL): string {
  const match = RAW_PREDICT.exec(url.pathname);
  if (match === null) return url.pathname + url.search;
  return match[1] === "count-tokens" ? "/v1/messages/count_tokens" : "/v1/messages";
}

function withModel(url: URL, body: string): string {
  const name = RAW_PREDICT.exec(url.pathname)?.[1];
  return name === undefined || name === "count-tokens"
    ? body
    : JSON.stringify({ model: name, ...(JSON.parse(body) as Json) });
}

async function open(
  env: Readonly<Record<string, string>>,
  now?: () => number,
): Promise<{ gateway: Gateway; account: TestAccount }> {
  const gateway = await startGateway({ providers: [], env, ...(now === undefined ? {} : { now }) });
  running.push(gateway.stop);
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
  return { gateway, account };
}

// AWS General Reference, "Create a signed AWS API request", in the order of its steps.
function awsSignature(request: Request, body: string, secretKey: string): string {
  const authorization = request.headers.get("authorization") ?? "";
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=/.exec(
      authorization,
    );
  const [, , day = "", region = "", service = "", names = ""] = match ?? [];
  const url = new URL(request.url);
  const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
  const hmac = (key: string | Buffer, text: string): Buffer =>
    createHmac("sha256", key).update(text).digest();
  // Each path segment is encoded a second time, for every service but S3.
  const canonicalPath = url.pathname
    .split("/")
    .map((part) => encodeURIComponent(part))
    .join("/");
  const canonicalHeaders = names
    .split(";")
    .map(
      (name) =>
        `${name}:${(name === "host" ? url.host : (request.headers.get(name) ?? "")).trim()}\n`,
    )
    .join("");
  const canonicalRequest = [
    request.method,
    canonicalPath,
    url.search.slice(1),
    canonicalHeaders,
    names,
    sha(body),
  ].join("\n");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = [
    "AWS4-HMAC-SHA256",
    request.headers.get("x-amz-date") ?? "",
    scope,
    sha(canonicalRequest),
  ].join("\n");
  const key = hmac(hmac(hmac(hmac(`AWS4${secretKey}`, day), region), service), "aws4_request");
  return createHmac("sha256", key).update(toSign).digest("hex");
}

describe("Amazon Bedrock", () => {
  const MODEL = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0";
  const SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

  function startBedrock(): Cloud {
    return startCloud((request, body) => {
      const signature = /Signature=([0-9a-f]{64})$/.exec(
        request.headers.get("authorization") ?? "",
      )?.[1];
      const isSigned = signature === awsSignature(request, body, SECRET);
      return isSigned
        ? undefined
        : Response.json(
            { message: "The request signature we calculated does not match" },
            { status: 403 },
          );
    });
  }

  function awsEnv(cloud: Cloud, more: Json = {}): Record<string, string> {
    return {
      BEDROCK_BASE_URL: cloud.url,
      BEDROCK_REGION: "eu-central-1",
      BEDROCK_ACCESS_KEY_ID: "AKIDEXAMPLE",
      BEDROCK_SECRET_ACCESS_KEY: SECRET,
      ...more,
    };
  }

  for (const api of STREAMED_APIS)
    for (const stream of [false, true])
      test(`signs ${api}${stream ? " streams in binary frames" : " calls"}, and answers in the caller's API`, async () => {
        const cloud = startBedrock();
        const { gateway, account } = await open(awsEnv(cloud));
        const response = await postCall(
          gateway,
          account,
          api,
          bodyOf(api, "hello ü", { model: MODEL, stream }),
        );
        const text = await response.text();
        expect([response.status, text.slice(0, 80)]).toEqual([200, text.slice(0, 80)]);
        if (stream) expect(isCompleteStream(api, text)).toBe(true);
        const [request] = cloud.requests;
        expect(request?.url.pathname).toBe(
          `/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse${stream ? "-stream" : ""}`,
        );
        expect(request?.headers.get("authorization")).toContain("AKIDEXAMPLE");
        expect(request?.headers.get("authorization")).toContain(
          "/eu-central-1/bedrock/aws4_request",
        );
      });

  test("sends and signs the session token of temporary credentials", async () => {
    const cloud = startBedrock();
    const { gateway, account } = await open(
      awsEnv(cloud, { BEDROCK_SESSION_TOKEN: "session-token-1" }),
    );
    const response = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "hello", { model: MODEL }),
    );
    expect(response.status).toBe(200);
    const headers = cloud.requests[0]?.headers;
    expect(headers?.get("x-amz-security-token")).toBe("session-token-1");
    expect(headers?.get("authorization")).toContain("x-amz-security-token");
  });

  test("a wrong secret is a 503 that does not reveal the signature error", async () => {
    const cloud = startBedrock();
    const { gateway, account } = await open(
      awsEnv(cloud, { BEDROCK_SECRET_ACCESS_KEY: "something-else-altogether" }),
    );
    const response = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "hello", { model: MODEL }),
    );
    const text = await response.text();
    expect([response.status, errorOf(JSON.parse(text))["code"]]).toEqual([
      503,
      "provider_not_configured",
    ]);
    expect(text).not.toContain("signature");
  });

  test("sends a Bedrock API key as a bearer token, without signing", async () => {
    const cloud = startCloud((request) =>
      request.headers.get("authorization") === "Bearer bedrock-api-key-1"
        ? undefined
        : new Response("{}", { status: 403 }),
    );
    const { gateway, account } = await open({
      BEDROCK_BASE_URL: cloud.url,
      BEDROCK_API_KEY: "bedrock-api-key-1",
    });
    const response = await postCall(
      gateway,
      account,
      "messages",
      bodyOf("messages", "hello", { model: MODEL }),
    );
    expect(response.status).toBe(200);
  });

  test("routes an Anthropic model to Bedrock if the caller's `order` says so", async () => {
    const cloud = startBedrock();
    const { gateway, account } = await open({
      ...awsEnv(cloud),
      ANTHROPIC_API_KEY: "k",
      ANTHROPIC_BASE_URL: cloud.url,
    });
    const model = {
      model: "anthropic/claude-sonnet-4-5",
      provider: { order: ["bedrock", "anthropic"] },
    };
    const response = await postCall(
      gateway,
      account,
      "messages",
      bodyOf("messages", "hello", model),
    );
    expect([response.status, response.headers.get("x-postern-model")]).toEqual([
      200,
      "bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ]);
  });

  test("derives the base URL from the region", async () => {
    const { providerBaseUrl } = await import("../../../src/inference/providers/cloud-accounts.ts");
    const bedrock = PROVIDERS.find(({ id }) => id === "bedrock");
    if (bedrock === undefined) throw new Error("no provider bedrock");
    expect(providerBaseUrl(bedrock, undefined)).toBe(
      "https://bedrock-runtime.us-east-1.amazonaws.com",
    );
    expect(providerBaseUrl(bedrock, { plain: { REGION: "eu-west-3" } })).toBe(
      "https://bedrock-runtime.eu-west-3.amazonaws.com",
    );
  });
});

describe("Google Vertex AI", () => {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const credentials = {
    type: "service_account",
    project_id: "project-of-the-account",
    private_key_id: "key-7",
    private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
    client_email: "gateway@project.iam.gserviceaccount.com",
    token_uri: "https://oauth2.googleapis.com/token",
  };
  let issued: { readonly claims: Json; readonly header: Json }[] = [];
  let tokenErrorStatus: number | undefined;
  let tokenUrl = "";
  let stopTokens: () => Promise<void> = async () => {};

  beforeAll(() => {
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      development: false,
      fetch: async (request) => {
        const form = new URLSearchParams(await request.text());
        const [header = "", claims = "", signature = ""] = (form.get("assertion") ?? "").split(".");
        const isOurs = verify(
          "RSA-SHA256",
          Buffer.from(`${header}.${claims}`),
          publicKey,
          Buffer.from(signature, "base64url"),
        );
        const isGrant = form.get("grant_type") === "urn:ietf:params:oauth:grant-type:jwt-bearer";
        if (tokenErrorStatus !== undefined || !isOurs || !isGrant)
          return Response.json({ error: "invalid_grant" }, { status: tokenErrorStatus ?? 400 });
        const read = (part: string): Json =>
          JSON.parse(Buffer.from(part, "base64url").toString()) as Json;
        issued.push({ claims: read(claims), header: read(header) });
        return Response.json({
          access_token: `token-${issued.length}`,
          expires_in: 3_599,
          token_type: "Bearer",
        });
      },
    });
    tokenUrl = `http://127.0.0.1:${server.port}/token`;
    stopTokens = () => server.stop(true);
  });
  afterAll(() => stopTokens());
  afterEach(() => {
    issued = [];
    tokenErrorStatus = undefined;
  });

  function startVertex(valid: () => string = () => `token-${issued.length}`): Cloud {
    return startCloud((request) =>
      request.headers.get("authorization") === `Bearer ${valid()}`
        ? undefined
        : Response.json(
            { error: { message: "bad token", status: "UNAUTHENTICATED" } },
            { status: 401 },
          ),
    );
  }

  function env(cloud: Cloud, more: Json = {}): Record<string, string> {
    return {
      VERTEX_BASE_URL: cloud.url,
      VERTEX_CREDENTIALS: JSON.stringify(credentials),
      VERTEX_LOCATION: "us-east5",
      VERTEX_TOKEN_URL: tokenUrl,
      ...more,
    };
  }

  const ROOT = "/v1/projects/project-of-the-account/locations/us-east5/publishers";

  for (const api of STREAMED_APIS)
    for (const stream of [false, true])
      for (const model of ["gemini-3.5-flash", "claude-sonnet-4-5"])
        test(`calls ${model} with ${api}${stream ? ", streamed" : ""}`, async () => {
          const cloud = startVertex();
          const { gateway, account } = await open(env(cloud));
          const response = await postCall(
            gateway,
            account,
            api,
            bodyOf(api, "hello", { model: `vertex/${model}`, stream }),
          );
          const text = await response.text();
          expect([response.status, text.slice(0, 80)]).toEqual([200, text.slice(0, 80)]);
          if (stream) expect(isCompleteStream(api, text)).toBe(true);
          const { url, body } = cloud.requests[0] ?? { url: new URL("http://none"), body: "{}" };
          if (model.startsWith("gemini")) {
            const operation = stream ? "streamGenerateContent?alt=sse" : "generateContent";
            expect(url.pathname + url.search).toBe(`${ROOT}/google/models/${model}:${operation}`);
          } else {
            expect(url.pathname).toBe(
              `${ROOT}/anthropic/models/${model}:${stream ? "streamRawPredict" : "rawPredict"}`,
            );
            const sent = JSON.parse(body) as Json;
            expect([sent["model"], sent["anthropic_version"]]).toEqual([
              undefined,
              "vertex-2023-10-16",
            ]);
          }
        });

  test("the assertion has issuer, scope, audience and lifetime, and names its key", async () => {
    const at = Date.parse("2026-11-21T12:00:00Z");
    const cloud = startVertex();
    const { gateway, account } = await open(env(cloud), () => at);
    await (
      await postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hello", { model: "vertex/gemini-3.5-flash" }),
      )
    ).text();
    expect(issued).toEqual([
      {
        header: { alg: "RS256", typ: "JWT", kid: "key-7" },
        claims: {
          iss: credentials.client_email,
          scope: "https://www.googleapis.com/auth/cloud-platform",
          aud: tokenUrl,
          iat: at / 1_000,
          exp: at / 1_000 + 3_600,
        },
      },
    ]);
  });

  test("shares one access token between calls, and renews it shortly before it expires", async () => {
    let clockOffsetMs = 0;
    const cloud = startVertex();
    const { gateway, account } = await open(env(cloud), () => Date.now() + clockOffsetMs);
    const call = (): Promise<Response> =>
      postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hello", { model: "vertex/gemini-3.5-flash" }),
      );
    const first = await Promise.all(Array.from({ length: 8 }, call));
    expect(first.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
    expect(issued).toHaveLength(1);
    clockOffsetMs = 55 * MINUTE_MS;
    expect((await call()).status).toBe(200);
    expect(issued).toHaveLength(1);
    clockOffsetMs = 58.5 * MINUTE_MS;
    expect((await call()).status).toBe(200);
    expect(issued).toHaveLength(2);
  });

  test("drops an access token that the provider rejects", async () => {
    let valid = "token-1";
    const cloud = startVertex(() => valid);
    const { gateway, account } = await open(env(cloud));
    const call = (): Promise<Response> =>
      postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hello", { model: "vertex/gemini-3.5-flash" }),
      );
    expect((await call()).status).toBe(200);
    valid = "token-2";
    expect((await call()).status).toBe(503);
    expect((await call()).status).toBe(200);
  });

  test("returns 503 if Google rejects the account, 502 if the token endpoint fails, and recovers", async () => {
    const cloud = startVertex();
    const { gateway, account } = await open(env(cloud));
    const call = (): Promise<Response> =>
      postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hello", { model: "vertex/gemini-3.5-flash" }),
      );
    tokenErrorStatus = 400;
    const rejected = await call();
    expect([rejected.status, errorOf(await rejected.json())["code"]]).toEqual([
      503,
      "provider_not_configured",
    ]);
    tokenErrorStatus = 500;
    const failed = await call();
    expect([failed.status, errorOf(await failed.json())["code"]]).toEqual([502, "upstream_error"]);
    expect(cloud.requests).toEqual([]);
    tokenErrorStatus = undefined;
    expect((await call()).status).toBe(200);
  });

  test("a passthrough message keeps its bytes, except for model and version", async () => {
    const cloud = startVertex();
    const { gateway, account } = await open(env(cloud));
    const text = `{"model": "vertex/claude-sonnet-4-5@20250929",  "max_tokens": 50, "messages": [ {"role": "user", "content": "hi"} ]}`;
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: "POST",
      headers: account.headers,
      body: text,
    });
    expect(response.status).toBe(200);
    expect(cloud.requests[0]?.url.pathname).toBe(
      `${ROOT}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict`,
    );
    expect(cloud.requests[0]?.body).toBe(
      `{"anthropic_version":"vertex-2023-10-16",  "max_tokens": 50, "messages": [ {"role": "user", "content": "hi"} ]}`,
    );
  });

  test("counts tokens at Vertex", async () => {
    const cloud = startVertex();
    const { gateway, account } = await open(env(cloud));
    const response = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "vertex/claude-sonnet-4-5",
        messages: [{ role: "user", content: "hello" }],
      }),
    });
    expect([response.status, response.headers.get("x-postern-count")]).toEqual([200, "provider"]);
    expect(cloud.requests[0]?.url.pathname).toBe(
      `${ROOT}/anthropic/models/count-tokens:rawPredict`,
    );
    expect(JSON.parse(cloud.requests[0]?.body ?? "")).toMatchObject({
      model: "claude-sonnet-4-5",
      anthropic_version: "vertex-2023-10-16",
    });
  });

  test("rejects callers' own keys", async () => {
    const cloud = startVertex();
    const { gateway, account } = await open(env(cloud));
    const response = await fetch(`${gateway.url}/v1/provider-keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ provider: "vertex", api_key: "some-key-of-my-own-there" }),
    });
    expect(response.status).toBe(400);
  });

  test("derives host and path from location and project", async () => {
    const { providerBaseUrl } = await import("../../../src/inference/providers/cloud-accounts.ts");
    const vertex = PROVIDERS.find(({ id }) => id === "vertex");
    if (vertex === undefined) throw new Error("no provider vertex");
    const at = (location?: string): string =>
      providerBaseUrl(vertex, {
        plain: { PROJECT: "p", ...(location === undefined ? {} : { LOCATION: location }) },
      });
    expect([at(), at("us-east5"), at("eu")]).toEqual([
      "https://aiplatform.googleapis.com/v1/projects/p/locations/global",
      "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5",
      "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu",
    ]);
    expect(providerBaseUrl(vertex, undefined)).toBe("");
  });

  test("doctor requests a token, and reports what is wrong", async () => {
    const settings = (value: Record<string, string>): Parameters<typeof checkProviders>[0] => {
      const read = readConfig({ env: value, hostName: "test", providers: PROVIDERS });
      if (!read.ok) throw new Error(read.errors.join());
      return read.config;
    };
    const of = async (value: Record<string, string>): Promise<string> => {
      const [finding] = await checkProviders(
        { ...settings(value), development: false },
        { providers: [], credentials: [] },
      );
      return `${finding?.status} ${finding?.message}`;
    };
    const whole = { VERTEX_CREDENTIALS: JSON.stringify(credentials), VERTEX_TOKEN_URL: tokenUrl };
    expect(await of(whole)).toBe("ok Google Vertex AI accepts the service account");
    tokenErrorStatus = 401;
    expect(await of(whole)).toStartWith("fail Google Vertex AI refuses the service account");
    expect(await of({ VERTEX_PROJECT: "p" })).toBe(
      "warn Google Vertex AI has settings but no credentials",
    );
    expect(await of({ VERTEX_LOCATION: "eu" })).toStartWith("fail Google Vertex AI has no URL");
    expect(await of({ BEDROCK_REGION: "eu-west-3" })).toBe(
      "warn Amazon Bedrock has settings but no credentials",
    );
    expect(await of({ BEDROCK_API_KEY: "k" })).toStartWith("note Amazon Bedrock is set up");
  });

  test("reads credentials from a file, and rejects invalid ones at the start", () => {
    const folder = mkdtempSync(path.join(tmpdir(), "postern-vertex-"));
    const file = path.join(folder, "account.json");
    writeFileSync(file, JSON.stringify(credentials));
    const read = (value: string, more: Record<string, string> = {}) =>
      readConfig({
        env: { VERTEX_CREDENTIALS: value, ...more },
        hostName: "test",
        providers: PROVIDERS,
      });
    const valid = read(file);
    expect(valid.ok && valid.config.providers["vertex"]?.secrets?.["CREDENTIALS"]?.reveal()).toBe(
      JSON.stringify(credentials),
    );
    const invalid = [
      read(path.join(folder, "none.json")),
      read('{"client_email":"x"}'),
      read(file, { BEDROCK_ACCESS_KEY_ID: "a" }),
    ];
    rmSync(folder, { recursive: true });
    expect(invalid.map((result) => (result.ok ? [] : result.errors))).toEqual([
      ["VERTEX_CREDENTIALS must be JSON or the path of a readable file"],
      [
        "VERTEX_CREDENTIALS must be a Google service account key file (JSON) with `client_email` and a valid `private_key`",
      ],
      ["BEDROCK_ACCESS_KEY_ID requires BEDROCK_SECRET_ACCESS_KEY"],
    ]);
  });
});

describe("Azure OpenAI", () => {
  for (const api of ["chat", "responses", "embeddings"] as const)
    test(`${api} is sent to the resource's URL with the key in the api-key header`, async () => {
      const cloud = startCloud((request) =>
        request.headers.get("api-key") === "azure-key-1"
          ? undefined
          : new Response("{}", { status: 401 }),
      );
      const { gateway, account } = await open({
        AZURE_OPENAI_API_KEY: "azure-key-1",
        AZURE_OPENAI_BASE_URL: `${cloud.url}/openai/v1`,
      });
      const model = {
        model: api === "embeddings" ? "azure/text-embedding-3-small" : "azure/gpt-5-mini",
      };
      const response = await postCall(gateway, account, api, bodyOf(api, "hello", model));
      expect(response.status).toBe(200);
      const { url, headers } = cloud.requests[0] ?? {
        url: new URL("http://none"),
        headers: new Headers(),
      };
      expect([url.pathname, headers.get("authorization")]).toEqual([
        `/openai/v1/${{ chat: "chat/completions", responses: "responses", embeddings: "embeddings" }[api]}`,
        null,
      ]);
    });
});

describe("Google Gemini", () => {
  test("sends the key in `x-goog-api-key`, never in the URL", async () => {
    const cloud = startCloud((request) =>
      request.headers.get("x-goog-api-key") === "gemini-key-1"
        ? undefined
        : new Response("{}", { status: 401 }),
    );
    const { gateway, account } = await open({
      GOOGLE_API_KEY: "gemini-key-1",
      GOOGLE_BASE_URL: `${cloud.url}/v1beta`,
    });
    const response = await postCall(
      gateway,
      account,
      "messages",
      bodyOf("messages", "hello", { model: "google/gemini-2.5-flash" }),
    );
    expect(response.status).toBe(200);
    expect(cloud.requests[0]?.url.pathname).toBe("/v1beta/models/gemini-2.5-flash:generateContent");
    expect(cloud.requests[0]?.url.search).toBe("");
  });
});
