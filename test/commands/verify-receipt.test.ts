// `postern verify-receipt` and `postern admin rotate-signing-key`.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { bodyOf, postCall, withHeaders } from "../inference/support/harness.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

describe("postern verify-receipt", () => {
  let gateway: Gateway;
  let account: TestAccount;
  const folder = scratchFolder("receipts");
  const save = (name: string, content: string): string => {
    const file = path.join(folder, name);
    writeFileSync(file, content);
    return file;
  };
  let receipt = "";
  let files: Readonly<Record<"request" | "response" | "keys", string>>;
  beforeAll(async () => {
    gateway = await startGateway();
    account = await registerAccount(gateway);
    const body = bodyOf("chat", "hello");
    const headers = withHeaders(account, { "x-postern-receipt": "1" });
    const response = await postCall(gateway, headers, "chat", body);
    receipt = response.headers.get("x-postern-receipt") ?? "";
    const keys = await (await fetch(`${gateway.url}/.well-known/jwks.json`)).text();
    files = {
      request: save("request.json", JSON.stringify(body)),
      response: save("response.json", await response.text()),
      keys: save("jwks.json", keys),
    };
  });
  afterAll(() => gateway.stop());
  const run = (...args: readonly string[]) => runInProcess(["verify-receipt", ...args], {});

  test("prints what a valid receipt says", async () => {
    const { code, stdout, stderr } = await run(receipt, "--url", gateway.url);
    expect([code, stderr]).toEqual([0, ""]);
    expect(JSON.parse(stdout)).toMatchObject({ payer: account.id, network: "postern" });
  });

  test("needs no gateway with saved keys, and compares the bodies", async () => {
    const saved = save("receipt.txt", `${receipt}\n`);
    const bodies = ["--request", files.request, "--response", files.response];
    const { code, stderr } = await run(saved, "--keys", files.keys, ...bodies);
    expect([code, stderr]).toEqual([0, ""]);
  });

  test("refuses another body", async () => {
    const other = save("other.json", "{}");
    const { code, stderr } = await run(receipt, "--keys", files.keys, "--response", other);
    expect([code, stderr]).toEqual([1, expect.stringContaining("The response is not the one")]);
  });

  test("refuses a receipt that was changed, and keys of another gateway", async () => {
    const [head = "", , signature = ""] = receipt.split(".");
    const forged = `${head}.${Buffer.from('{"cost_usd":"0"}').toString("base64url")}.${signature}`;
    expect(await run(forged, "--keys", files.keys)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("not valid"),
    });
    const none = save("none.json", '{"keys":[]}');
    expect((await run(receipt, "--keys", none)).code).toBe(1);
  });

  test("says which file cannot be read", async () => {
    const { code, stderr } = await run("missing.txt", "--keys", files.keys);
    expect([code, stderr]).toEqual([1, expect.stringContaining("missing.txt cannot be read")]);
  });

  test("verifies receipts of earlier keys after postern admin rotate-signing-key", async () => {
    const settings = { POSTERN_DATA_DIR: gateway.config.store.dataDir };
    const rotated = await runInProcess(["admin", "rotate-signing-key"], settings);
    expect([rotated.code, rotated.stdout]).toEqual([
      0,
      "New quotes and receipts are signed with postern-2.\n",
    ]);
    expect((await run(receipt, "--url", gateway.url)).code).toBe(0);
  });
});
