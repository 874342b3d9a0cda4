import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { parse } from "yaml";
import { endpointSlug } from "../../src/http/route.ts";
import { type TestAccount, registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { type ApiResponse, valueAt, call, chat, type Json, type ApiRequest } from "./api-client.ts";
import { type ApiDescription, readApiDescription } from "./openapi-conformance.ts";

let later = 0;
const gateway = await startGateway({ now: () => Date.now() + later });
const production = await startGateway({
  env: { POSTERN_BASE_URL: "https://gateway.example", POSTERN_SECRET: "s".repeat(40) },
});
afterAll(async () => {
  await gateway.stop();
  await production.stop();
});

const DOCUMENTS = [
  ["getLlmsText", "/llms.txt", "text/plain; charset=utf-8"],
  ["getOpenApiYaml", "/openapi.yaml", "application/yaml; charset=utf-8"],
  ["getOpenApiJson", "/openapi.json", "application/json"],
  ["getAuthManifest", "/auth.md", "text/markdown; charset=utf-8"],
  ["getWellKnownAuthManifest", "/.well-known/auth.md", "text/markdown; charset=utf-8"],
  ["getProtectedResource", "/.well-known/oauth-protected-resource", "application/json"],
  ["getAuthorizationServer", "/.well-known/oauth-authorization-server", "application/json"],
  ["getMcpServerCard", "/mcp/server-card", "application/mcp-server-card+json"],
  [
    "getWellKnownMcpServerCard",
    "/.well-known/mcp/server-card.json",
    "application/mcp-server-card+json",
  ],
  ["getMcpProtectedResource", "/.well-known/oauth-protected-resource/mcp", "application/json"],
  ["getArdManifest", "/.well-known/ard.json", "application/json"],
  ["getAiCatalog", "/.well-known/ai-catalog.json", "application/json"],
  ["getAgentSkills", "/.well-known/agent-skills/index.json", "application/json"],
  ["getAgentSkill", "/.well-known/agent-skills/postern/SKILL.md", "text/markdown; charset=utf-8"],
  [
    "getApiCatalog",
    "/.well-known/api-catalog",
    'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
  ],
  ["getRobotsTxt", "/robots.txt", "text/plain; charset=utf-8"],
  ["getSitemap", "/sitemap.xml", "application/xml; charset=utf-8"],
  ["getLlmsFullText", "/llms-full.txt", "text/plain; charset=utf-8"],
] as const;

const PAGES = [
  ["getHome", "/", "text/html; charset=utf-8"],
  ["getDocs", "/docs", "text/html; charset=utf-8"],
] as const;

const HTML = { accept: "text/html" };

interface PostOperation {
  readonly tags: readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

describe("discovery documents", () => {
  test.each([...DOCUMENTS])(
    "%s is served at %s as %s without authentication",
    async (id, path, type) => {
      const response = await call(gateway, `GET ${path}`);
      expectStatus(id, 200, response);
      expect(response.headers.get("content-type")).toBe(type);
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.text.length).toBeGreaterThan(100);
    },
  );

  test("human documentation is linked by POSTERN_DOCS_URL", async () => {
    const { body } = await call(gateway, "GET /.well-known/oauth-protected-resource");
    expect(body["resource_documentation"]).toBe(gateway.config.docsUrl);
    const response = await call(gateway, "GET /docs", { headers: HTML });
    expectStatus("getDocs", 200, response);
  });

  test("/auth.md and /.well-known/auth.md are equal", async () => {
    const [short, wellKnown] = [
      await call(gateway, "GET /auth.md"),
      await call(gateway, "GET /.well-known/auth.md"),
    ];
    expect(wellKnown.text).toBe(short.text);
    expect(wellKnown.headers.get("etag")).toBe(short.headers.get("etag"));
  });

  test("/openapi.yaml and /openapi.json are equal", async () => {
    const { text } = await call(gateway, "GET /openapi.yaml");
    expect((await call(gateway, "GET /openapi.json")).body).toEqual(parse(text) as Json);
    // Parsers of YAML 1.1 read these words as booleans.
    expect(text).not.toMatch(/[:-] (?:on|off|yes|no|y|n)$/im);
  });

  test("/protocol lists every endpoint of model calls and every header of their options", async () => {
    const { body: protocol } = await call(gateway, "GET /protocol");
    const { body: document } = await call(gateway, "GET /openapi.json");
    const apis = valueAt(protocol, "apis") as readonly { method: string; path: string }[];
    const listed = new Set(apis.map(({ method, path }) => `${method} ${path}`));
    const paths = valueAt(document, "paths") as Readonly<Record<string, { post?: PostOperation }>>;
    const missing = Object.entries(paths)
      .filter(([path, { post }]) => post?.tags[0] === "Models" && !listed.has(`POST ${path}`))
      .map(([path]) => path);
    expect(missing).toEqual(["/v1/quote", "/v1/responses/{id}/cancel"]);
    const options = (paths["/v1/chat/completions"]?.post?.parameters ?? [])
      .filter((parameter) => parameter.in === "header" && parameter.name.startsWith("x-postern-"))
      .map(({ name }) => name);
    expect(options.length).toBeGreaterThan(8);
    expect(valueAt(protocol, "consumed.headers")).toEqual(expect.arrayContaining(options));
  });

  test("/ is HTML, JSON or text by the accept header", async () => {
    const browser = await call(gateway, "GET /", { headers: HTML });
    expectStatus("getHome", 200, browser);
    expect(browser.headers.get("content-type")).toStartWith("text/html");
    const program = await call(gateway, "GET /", { headers: { accept: "application/json" } });
    expect(program.body).toMatchObject({
      base_url: gateway.url,
      auth_md: `${gateway.url}/auth.md`,
      llms_txt: `${gateway.url}/llms.txt`,
      openapi: `${gateway.url}/openapi.yaml`,
    });
    const curl = await call(gateway, "GET /", { headers: { accept: "*/*" } });
    expect(curl.headers.get("content-type")).toStartWith("text/plain");
    expect(browser.headers.get("vary")).toBe("accept, cookie, accept-encoding");
    for (const { headers } of [program, curl])
      expect(headers.get("vary")).toBe("accept, accept-encoding");
  });

  test("every URL of this gateway in a document exists", async () => {
    const texts = await Promise.all(
      [...DOCUMENTS, ...PAGES].map(async ([, path]) => (await call(gateway, `GET ${path}`)).text),
    );
    const named = new Set(
      texts.flatMap((text) =>
        [...text.matchAll(new RegExp(`${gateway.url}(/[\\w./-]*)(?![{$])`, "g"))].map(
          ([, path = ""]) => path.replace(/[.]$/, ""),
        ),
      ),
    );
    const missing: string[] = [];
    for (const path of named) {
      const { status } = await call(gateway, `GET ${path}`);
      if (status === 404 && !/^\/v1\/?$|\/v1\/[\w-]+\/\w+_?/.test(path)) missing.push(path);
    }
    expect(missing).toEqual([]);
  });
});

describe("/openapi.yaml describes the responses", () => {
  let account: TestAccount;
  let description: ApiDescription;
  beforeAll(async () => {
    account = await registerAccount(gateway);
    description = await readApiDescription(gateway);
  });

  const expectAnswer = async (
    line: string,
    template: string,
    sent: ApiRequest,
  ): Promise<ApiResponse> => {
    const response = await call(gateway, line, { key: account.key, ...sent });
    description.expectDocumented(line.split(" ")[0] ?? "", template, response);
    return response;
  };

  test("of the discovery documents", async () => {
    for (const [, path] of DOCUMENTS) await expectAnswer(`GET ${path}`, path, {});
  });

  test("of models in OpenAI's and Anthropic's formats", async () => {
    const headers = { "anthropic-version": "2023-06-01" };
    for (const [path, template] of [
      ["/v1/models", "/v1/models"],
      ["/v1/models/sim/echo", "/v1/models/{id}"],
    ] as const) {
      const openai = await expectAnswer(`GET ${path}`, template, {});
      expect(openai.body["object"]).toBeString();
      const anthropic = await expectAnswer(`GET ${path}`, template, { headers });
      expect(anthropic.body["object"]).toBeUndefined();
      expect(description.parametersOf("GET", template, "header")).toContain("anthropic-version");
    }
  });

  const CALLS: readonly (readonly [path: string, body: Json])[] = [
    ["/v1/chat/completions", { messages: [{ role: "user", content: "hello" }] }],
    ["/v1/messages", { messages: [{ role: "user", content: "hello" }], max_tokens: 20 }],
    ["/v1/responses", { input: "hello" }],
    ["/v1/embeddings", { model: "sim/embed", input: "hello" }],
    ["/v1/images/generations", { model: "sim/image", prompt: "hello" }],
    ["/v1/rerank", { model: "sim/rerank", query: "hello", documents: ["hello"] }],
    ["/v2/rerank", { model: "sim/rerank", query: "hi", documents: ["hello"] }],
    ["/v1/moderations", { model: "sim/moderation", input: "hello" }],
  ];

  test.each([...CALLS])(
    "of POST %s, which takes an idempotency-key and says when it gives an answer again",
    async (path, more) => {
      expect(description.parametersOf("POST", path, "header")).toContain("idempotency-key");
      const body = { model: "sim/echo", ...more };
      for (const stream of /chat|messages|responses/.test(path) ? [false, true] : [false]) {
        const sent = {
          body: stream ? { ...body, stream } : body,
          headers: { "idempotency-key": `openapi ${path} ${stream}`.replaceAll(" ", "-") },
        };
        const first = await expectAnswer(`POST ${path}`, path, sent);
        expect(first.headers.get("idempotent-replayed")).toBeNull();
        const again = await expectAnswer(`POST ${path}`, path, sent);
        expect([first.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
        const other = { ...sent, body: { ...sent.body, user: "x", metadata: {} } };
        expect((await expectAnswer(`POST ${path}`, path, other)).status).toBe(409);
      }
    },
  );

  test("of provider failures, with rate-limit headers and retry-after", async () => {
    const ordered = (order: string): Json => ({
      model: "sim/echo",
      messages: [{ role: "user", content: `[[sim: ${order}]] hello` }],
      max_tokens: 20,
    });
    for (const path of ["/v1/chat/completions", "/v1/messages"]) {
      const failed = (order: string): Promise<ApiResponse> =>
        expectAnswer(`POST ${path}`, path, { body: ordered(order) });
      const limited = await failed("status=429 retry-after=30 limits=5");
      const names = [...limited.headers.keys()].filter((name) => name.includes("ratelimit"));
      expect([limited.status, names.length > 0]).toEqual([429, true]);
      for (const status of [400, 413, 500, 503, 504]) {
        expect((await failed(`status=${status} limits=5`)).status).toBe(status);
        // Spaced in time, so that the failures do not open the circuit.
        expect((await failed("text=fine")).status).toBe(200);
      }
      let last = await failed("status=503");
      for (let more = 0; more < 3; more++) last = await failed("status=503");
      expect([last.status, last.headers.get("retry-after")]).toEqual([503, expect.any(String)]);
      // The circuit closes after its time.
      later += 60_000;
      expect((await failed("text=fine")).status).toBe(200);
    }
  });
});

describe("caches", () => {
  test.each([...DOCUMENTS, ...PAGES])(
    "%s at %s has a strong etag, and is not sent again to a client that has it",
    async (_id, path) => {
      const sent = { headers: HTML };
      const first = await call(gateway, `GET ${path}`, sent);
      expect(first.headers.get("cache-control")).toBe("public, max-age=300");
      const etag = first.headers.get("etag") ?? "";
      // Short texts are not compressed.
      expect(etag).toMatch(/^"[\w-]{22}(?:-gzip)?"$/);
      const plain = etag.replace("-gzip", "");
      for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const again = await call(gateway, `GET ${path}`, {
          headers: { ...HTML, "if-none-match": known },
        });
        expect(again.status).toBe(304);
        expect(again.text).toBe("");
        expect(again.headers.get("etag")).toBe(known === "*" ? plain : etag);
        expect(again.headers.get("content-type")).toBeNull();
      }
      const other = await call(gateway, `GET ${path}`, {
        headers: { ...HTML, "if-none-match": '"other"' },
      });
      expect(other.status).toBe(200);
    },
  );

  test("vary GET /v1/models by its format", async () => {
    const first = await call(gateway, "GET /v1/models");
    const etag = first.headers.get("etag") ?? "";
    const again = await call(gateway, "GET /v1/models", { headers: { "if-none-match": etag } });
    expectStatus("listModels", 304, again);
    expect(first.headers.get("vary")).toContain("anthropic-version");
  });

  test("keep assets, whose names contain a hash, forever", async () => {
    const page = await call(gateway, "GET /", { headers: HTML });
    const assets = [...page.text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)];
    expect(assets.length).toBeGreaterThan(0);
    for (const [, path] of assets) {
      const asset = await call(gateway, `GET ${path}`);
      expectStatus("getAsset0", 200, asset);
      expect(asset.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    }
  });
});

describe("pages", () => {
  const page = (path: string): Promise<ApiResponse> =>
    call(gateway, `GET ${path}`, { headers: HTML });

  test.each([...PAGES])(
    "%s at %s runs no script, loads from here alone, and cannot be framed",
    async (_id, path) => {
      const { headers, text } = await page(path);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(text).not.toMatch(/<script>|javascript:|\son\w+=|style="/i);
    },
  );
});

describe("versioning", () => {
  test("model, account, key, usage and provider-key endpoints have the path prefix /v1, /v1beta for Google or /v2 for Cohere, but pages do not", () => {
    for (const { path, tag } of gateway.server.routes)
      if (["Accounts", "Keys", "Models", "Usage", "Provider keys"].includes(tag))
        expect(path).toMatch(
          /^(?:\/api)?\/v1\/|^\/v1beta\/models|^\/v2\/rerank$|^\/models(?:\/|$)/,
        );
  });

  test("the claim and token endpoints have no version prefix", () => {
    const paths = gateway.server.routes.map(({ path }) => path);
    expect(paths).toContain("/agent/identity/claim");
    expect(paths).toContain("/oauth2/token");
  });

  test("/openapi.yaml is served", async () => {
    const document = Bun.YAML.parse((await call(gateway, "GET /openapi.yaml")).text);
    expect(valueAt(document, "openapi")).toMatch(/^3\.1\./);
    const described = Object.keys(valueAt(document, "paths") as object);
    for (const { path, hidden } of gateway.server.routes)
      if (hidden !== true) expect(described).toContain(path.replace("+}", "}"));
  });
});

describe("documented examples", () => {
  test.each([
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/rerank",
    "/v2/rerank",
    "/v1/moderations",
  ])("that of %s is answered as it is printed", async (path) => {
    const { body: document } = await call(gateway, "GET /openapi.json");
    const paths = document["paths"] as Readonly<Record<string, Json>>;
    const example = valueAt(paths[path], "post.requestBody.content.application/json.example");
    const { key } = await registerAccount(gateway);
    const response = await call(gateway, `POST ${path}`, { key, body: example });
    expect([path, response.status, response.text.slice(0, 200)]).toEqual([
      path,
      200,
      expect.any(String),
    ]);
    const id = valueAt(paths[path], "post.operationId") as string;
    const page = (await call(gateway, `GET /docs/${endpointSlug(id)}`, { headers: HTML })).text;
    expect(page).toContain(JSON.stringify(example).replaceAll('"', "&quot;"));
  });
});

describe("GET, HEAD and OPTIONS", () => {
  const getRoutes = (): readonly string[] =>
    gateway.server.routes
      .filter(
        ({ method, kind, path }) => method === "GET" && kind === "public" && !path.includes("{"),
      )
      .map(({ path }) => path);

  test("HEAD has the headers of GET, including the length, and no body", async () => {
    for (const path of getRoutes()) {
      const sent = { headers: { "accept-encoding": "identity" } };
      const got = await call(gateway, `GET ${path}`, sent);
      const head = await call(gateway, `HEAD ${path}`, sent);
      expect([path, head.status, head.text]).toEqual([path, got.status, ""]);
      for (const name of ["content-type", "etag", "cache-control", "vary"])
        expect([path, head.headers.get(name)]).toEqual([path, got.headers.get(name)]);
      // The counters have changed in between.
      if (path !== "/metrics")
        expect([path, head.headers.get("content-length")]).toEqual([
          path,
          String(new TextEncoder().encode(got.text).length),
        ]);
    }
  });

  test("HEAD is a 405 on a path that only supports POST", async () => {
    const response = await call(gateway, "HEAD /v1/accounts");
    expect([response.status, response.headers.get("allow"), response.text]).toEqual([
      405,
      "POST",
      "",
    ]);
  });

  test("a preflight allows all methods and the requested headers under /v1", async () => {
    const response = await call(production, "OPTIONS /v1/chat/completions", {
      headers: {
        origin: "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-lang",
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-allow-methods")).toBe("GET, POST, PATCH, DELETE");
    expect(response.headers.get("access-control-allow-headers")).toBe(
      "authorization,content-type,x-stainless-lang",
    );
    expect(response.headers.get("access-control-max-age")).toBe("600");
  });

  test("responses under /v1 expose their headers to pages, without credentials", async () => {
    for (const line of [
      "GET /v1/models",
      "GET /v1/account",
      "GET /v1/nothing",
      "OPTIONS /v1/keys",
    ]) {
      const origin = "https://app.example";
      const { headers } = await call(production, line, { headers: { origin } });
      expect([line, headers.get("access-control-allow-origin")]).toEqual([line, "*"]);
      expect(headers.get("access-control-expose-headers")).toBe("*");
      expect(headers.get("access-control-allow-credentials")).toBeNull();
    }
  });

  test("in development only pages of this machine have CORS access", async () => {
    const { key } = await registerAccount(gateway);
    const preflight = {
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization",
    };
    const ofCors = ({ headers }: ApiResponse): readonly string[] =>
      [...headers.keys()].filter((name) => name.startsWith("access-control-"));
    for (const line of ["GET /v1/models", "GET /v1/nothing", "OPTIONS /v1/chat/completions"]) {
      for (const origin of ["https://app.example", "null", "http://192.168.0.7:8787"])
        expect(ofCors(await call(gateway, line, { headers: { ...preflight, origin } }))).toEqual(
          [],
        );
      for (const origin of [gateway.url, "http://localhost:5173"]) {
        const { headers } = await call(gateway, line, { headers: { ...preflight, origin } });
        expect(headers.get("access-control-allow-origin")).toBe("*");
      }
    }
    expect(ofCors(await chat(gateway, key, {}, { origin: "https://app.example" }))).toEqual([]);
    expect(ofCors(await chat(gateway, key))).not.toEqual([]);
    const opened = await call(production, "POST /v1/accounts", {
      body: {},
      headers: { origin: "https://app.example" },
    });
    expect([opened.status, opened.headers.get("access-control-allow-origin")]).toEqual([201, "*"]);
  });

  test("a preflight allows pages the endpoints of claims, the documents and OpenRouter's paths", async () => {
    for (const [method, path] of [
      ["POST", "/agent/identity/claim"],
      ["POST", "/oauth2/token"],
      ["POST", "/api/v1/chat/completions"],
      ["GET", "/auth.md"],
      ["GET", "/.well-known/oauth-protected-resource"],
    ]) {
      const { status, headers } = await call(production, `OPTIONS ${path}`, {
        headers: {
          origin: "https://app.example",
          "access-control-request-method": method ?? "",
          "access-control-request-headers": "authorization,content-type",
        },
      });
      expect([path, status, headers.get("access-control-allow-origin")]).toEqual([path, 204, "*"]);
      expect(headers.get("access-control-allow-headers")).toBe("authorization,content-type");
    }
  });

  test("pages, forms and the MCP server have no CORS headers", async () => {
    for (const line of [
      "GET /console",
      "GET /claim",
      "GET /metrics",
      "OPTIONS /console",
      "OPTIONS /claim",
      "OPTIONS /mcp",
      "OPTIONS /nothing",
    ]) {
      const { headers } = await call(production, line, {
        headers: { origin: "https://app.example", "access-control-request-method": "POST" },
      });
      expect([line, headers.get("access-control-allow-origin")]).toEqual([line, null]);
    }
  });

  test("a preflight ignores malformed requested headers", async () => {
    const { headers } = await call(gateway, "OPTIONS /v1/keys", {
      headers: { "access-control-request-headers": "a: b" },
    });
    expect(headers.get("access-control-allow-headers")).toBeNull();
  });
});

describe("operations endpoints", () => {
  test("/healthz and /readyz return ok and are not cached", async () => {
    const [alive, ready] = [
      await call(gateway, "GET /healthz"),
      await call(gateway, "GET /readyz"),
    ];
    expectStatus("checkLiveness", 200, alive);
    expectStatus("checkReadiness", 200, ready);
    expect(alive.body).toEqual({ status: "ok", version: "0.0.0-test" });
    expect(ready.body).toEqual({ status: "ok" });
    for (const { headers } of [alive, ready]) expect(headers.get("cache-control")).toBe("no-store");
  });

  test("/metrics is Prometheus text without paths, keys and accounts in labels", async () => {
    await call(gateway, "GET /v1/keys/key_canary");
    const response = await call(gateway, "GET /metrics");
    expectStatus("getMetrics", 200, response);
    expect(response.headers.get("content-type")).toStartWith("text/plain; version=0.0.4");
    expect(response.text).toMatch(/^postern_requests_total\{route="getKey",status="401"\} \d+$/m);
    expect(response.text).not.toContain("canary");
  });

  test("/.well-known/security.txt contains the configured contact, and is a 404 without one", async () => {
    expect((await call(gateway, "GET /.well-known/security.txt")).status).toBe(404);
    const withContact = await startGateway({
      env: { POSTERN_SECURITY_CONTACT: "security@gateway.example" },
    });
    try {
      const answer = await call(withContact, "GET /.well-known/security.txt");
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("text/plain; charset=utf-8");
      const [contact, expires = ""] = answer.text.split("\n");
      expect(contact).toBe("Contact: mailto:security@gateway.example");
      expect(Date.parse(expires.replace("Expires: ", ""))).toBeGreaterThan(Date.now());
    } finally {
      await withContact.stop();
    }
  });

  test("/metrics requires the configured token outside development", async () => {
    const token = "metrics-token-of-the-operator";
    const env = { POSTERN_BASE_URL: "https://gateway.example.com", POSTERN_SECRET: "s".repeat(40) };
    const off = await startGateway({ env });
    const on = await startGateway({ env: { ...env, POSTERN_METRICS_TOKEN: token } });
    try {
      expectStatus("getMetrics", 404, await call(off, "GET /metrics"));
      expectStatus("getMetrics", 401, await call(on, "GET /metrics"));
      for (const authorization of [`Bearer ${token}x`, token, "Bearer "])
        expect((await call(on, "GET /metrics", { headers: { authorization } })).status).toBe(401);
      const allowed = await call(on, "GET /metrics", {
        headers: { authorization: `Bearer ${token}` },
      });
      expect(allowed.status).toBe(200);
    } finally {
      await Promise.all([off.stop(), on.stop()]);
    }
  });
});
