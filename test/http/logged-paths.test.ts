// Paths may contain secrets, such as the token of an invoice or of an invitation: the log has the route.

import { expect, test } from "bun:test";
import { deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

const TOKEN = "01kah5t3mq7d2c9w4e6r8t0yax.Jq3mS0v8Xc2bT5nYw7Rk1Lz4Pd6Hf9Ga0Ue2Io5Vs8M";

test("no log line has a token from a path, with a route or without one", async () => {
  const gateway = await startGateway({});
  // Names of models and documents are public, and the log says which one is missing.
  const withToken = gateway.server.routes.filter(
    ({ path }) => path.includes("{") && !/^\/(v1(?:beta)?\/models|models|docs)\//.test(path),
  );
  expect(withToken.some(({ path }) => path === "/pay/{token}")).toBe(true);
  for (const { method, path } of withToken) {
    const url = `${gateway.url}${path.replaceAll(/\{\w+\+?\}/g, TOKEN)}`;
    for (const suffix of ["", "/", "/nope", "?a=b"]) {
      const body = method === "GET" ? {} : { body: "{", headers: { "content-type": "text/x" } };
      await (await fetch(url + suffix, { method, redirect: "manual", ...body })).text();
    }
  }
  for (const url of [`/pay/${TOKEN}/receipts`, `/${TOKEN}`, `/v1/${TOKEN}`])
    await fetch(gateway.url + url);
  await gateway.stop();
  expect(gateway.logLines.some((line) => line.includes('"/pay/{token}"'))).toBe(true);
  expect(gateway.logLines.filter((line) => line.includes(TOKEN))).toEqual([]);
});

const GEMINI_PATHS = [
  "/v1beta/models/sim/echo:generateContent",
  "/v1beta/models/sim/echo:streamGenerateContent",
  "/v1beta/models/sim/echo:countTokens",
  "/v1beta/models/sim/none:generateContent",
  "/v1beta/models/sim/echo:generateContent/",
  "/v1beta//models/sim/echo:generateContent",
  "/v1beta/model/sim/echo:generateContent",
  "/v1beta/models",
  "/v1beta/models/",
  "/v1/models",
  "/v1/chat/completions",
  "/docs",
  "/docs/",
  "/nope",
];

test("no log line, span, redirect, error, receipt or record has the key of Google's query", async () => {
  const spans: string[] = [];
  const collector = Bun.serve({
    port: 0,
    fetch: async (request) => {
      spans.push(Buffer.from(await request.arrayBuffer()).toString("latin1"));
      return new Response("{}");
    },
  });
  const gateway = await startGateway({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.port}` },
  });
  const { key } = await registerAccount(gateway);
  const body = JSON.stringify({
    contents: [{ role: "user", parts: [{ text: "hello" }] }],
    generationConfig: { maxOutputTokens: 20 },
  });
  const seen: string[] = [];
  for (const path of GEMINI_PATHS)
    for (const method of ["GET", "POST", "DELETE"])
      for (const sent of [key, `${key}x`, deriveKey(key, { usd: "0" })]) {
        const response = await fetch(`${gateway.url}${path}?key=${sent}`, {
          method,
          redirect: "manual",
          headers: { "x-postern-receipt": "1", "content-type": "application/json" },
          ...(method === "POST" ? { body } : {}),
        });
        const receipt = response.headers.get("x-postern-receipt")?.split(".")[1] ?? "";
        const headers = JSON.stringify([...response.headers]);
        seen.push(headers, Buffer.from(receipt, "base64url").toString(), await response.text());
      }
  const rows = await gateway.server.db.all("select * from usage_record", []);
  expect(rows.length).toBeGreaterThan(0);
  seen.push(JSON.stringify(rows, (_, value: unknown) => String(value)));
  await gateway.stop();
  await collector.stop(true);
  expect(spans.length).toBeGreaterThan(0);
  const secret = key.slice(8, 30);
  expect([...seen, ...spans, ...gateway.logLines].filter((text) => text.includes(secret))).toEqual(
    [],
  );
});
