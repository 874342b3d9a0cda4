// What the 401 of a rejected key says: whether it is another service's key, mistyped, unknown, revoked or expired.

import { expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { createKeys } from "../../src/keys/keys.ts";
import { newRawKey } from "../../src/keys/raw-key.ts";
import { explainRejectedKey } from "../../src/keys/rejected-key.ts";
import { actIn } from "../support/act.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 18);

describeEachStore((kind, open) => {
  test(`explains why a key is rejected on ${kind}`, async () => {
    const { db, close } = await open();
    const deps = { db, master: secret("a master secret"), prefix: "pst" };
    const keys = createKeys({ ...deps });
    const create = (expiresAt: number | null): Promise<{ readonly raw: string }> =>
      db.write((tx) => keys.create(tx, actIn("acct_a", NOW), { expiresAt }));
    const { raw: revoked } = await create(null);
    await db.write((tx) => tx.run("update api_key set revoked_at = ?", [NOW + 1_000]));
    const { raw: expiring } = await create(NOW + 2_000);
    const explain = async (raw: string, now = NOW + 2_000): Promise<string | undefined> =>
      (await explainRejectedKey(deps, raw, now))?.reason;
    expect(await explain(revoked)).toBe("The API key was revoked at 2026-11-18T00:00:01.000Z.");
    expect(await explain(expiring, NOW)).toBeUndefined();
    expect(await explain(expiring)).toBe("The API key expired at 2026-11-18T00:00:02.000Z.");
    const { raw: former, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
    await db.write((tx) => keys.rotate(tx, actIn("acct_a", NOW), { id: key.id, overlapMs: 2_000 }));
    expect(await explain(former, NOW)).toBeUndefined();
    expect(await explain(former)).toBe(
      "The API key was rotated: this secret was accepted until 2026-11-18T00:00:02.000Z.",
    );
    expect(await explain(newRawKey("pst"))).toBe("This gateway has no such API key.");
    expect(await explain(expiring.slice(0, -1))).toBe(
      "The API key is incomplete or contains a typo.",
    );
    expect(await explain("sk-proj-123")).toBe(
      "This is not an API key of this gateway: its keys begin with `pst-rt-`.",
    );
    await close();
  });
});

test("the 401 of the API and of the MCP server names the reason", async () => {
  const gateway = await startGateway();
  const { key } = await registerAccount(gateway);
  const authorization = `Bearer ${key}`;
  const headers = { authorization, "content-type": "application/json" };
  const { data } = (await (await fetch(`${gateway.url}/v1/keys`, { headers })).json()) as {
    readonly data: readonly { readonly id: string }[];
  };
  await fetch(`${gateway.url}/v1/keys/${data[0]?.id}`, { method: "DELETE", headers });
  for (const [method, path, body] of [
    ["GET", "/v1/account", null],
    ["POST", "/v1/messages", "{}"],
    ["POST", "/oauth2/token", null],
    ["POST", "/mcp", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'],
  ] as const) {
    const response = await fetch(gateway.url + path, { method, headers, body });
    expect([path, response.status]).toEqual([path, 401]);
    expect(await response.text()).toMatch(
      /The API key was revoked at [\d-]+T[\d:.]+Z\. Ask your human, or the program that created it/,
    );
  }
  await gateway.stop();
});
