// Paths may contain secrets, such as the token of an invoice or of an invitation: the log has the route.

import { expect, test } from "bun:test";
import { startGateway } from "../support/gateway.ts";

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
