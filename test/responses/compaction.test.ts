// POST /v1/responses/compact: a sealed summary for every wire, which the next turn of any model accepts.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  errorOf,
  expectSettledLedger,
  type Json,
  lastSimulatorRequest,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  call,
  createResponse,
  fundedAccount,
  MODELS,
  openGateway,
  providerRequestBody,
} from "./harness.ts";

const TOOL = { type: "function", name: "shell", parameters: { type: "object", properties: {} } };

/** A conversation in the form that Codex sends. */
const CONVERSATION: readonly Json[] = [
  { type: "message", role: "user", content: [{ type: "input_text", text: "List the files." }] },
  { type: "function_call", name: "shell", call_id: "call_1", arguments: "{}" },
  { type: "function_call_output", call_id: "call_1", output: "note.txt" },
  { type: "message", role: "assistant", content: [{ type: "output_text", text: "note.txt" }] },
];

const REQUEST: Json = {
  input: CONVERSATION,
  instructions: "You are a coding agent.",
  tools: [TOOL],
  parallel_tool_calls: false,
};

for (const store of STORE_KINDS) {
  describe(`compaction on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const compact = async (body: Json, from = account): Promise<Json> => {
      const answer = await call(gateway, from, "POST /v1/responses/compact", { body });
      if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
      return answer.json;
    };
    const outputOf = (json: Json): readonly Json[] => json["output"] as readonly Json[];

    for (const [wire, model] of Object.entries(MODELS))
      test(`returns user messages and a sealed summary, which any model continues (${wire})`, async () => {
        const postern = { compaction: "summary" };
        const compacted = await compact({ model, ...REQUEST, postern });
        expect(compacted["object"]).toBe("response.compaction");
        // The tokens of the call that wrote the summary, which it charges for.
        const usage = compacted["usage"] as Json;
        expect([usage["input_tokens"], usage["output_tokens"], usage["cost"]]).toEqual(
          [0, 1, 2].map(() => expect.any(Number)),
        );
        expect(Number(usage["input_tokens"])).toBeGreaterThan(0);
        expect(usage["total_tokens"]).toBe(
          Number(usage["input_tokens"]) + Number(usage["output_tokens"]),
        );
        expect(usage["cost"]).toBeGreaterThan(0);
        const output = outputOf(compacted);
        expect(output.map(({ type }) => type)).toEqual(["message", "compaction"]);
        expect([output[0]?.["status"], Array.isArray(output[0]?.["content"])]).toEqual([
          "completed",
          true,
        ]);
        expect(String(output[0]?.["id"])).toStartWith("msg_");
        expect(JSON.stringify(output[1])).not.toContain("You said");
        for (const next of Object.values(MODELS)) {
          await createResponse(gateway, account, {
            model: next,
            input: [...output, { type: "message", role: "user", content: "Go on." }],
          });
          const sent = JSON.stringify(await providerRequestBody(gateway));
          expect(sent).toContain("replaced by the following summary");
          expect(sent).toContain("Go on.");
          expect(sent).not.toContain('encrypted_content":"pst-');
        }
      });

    test("OpenAI compacts natively, on the gateway's account and on a provider key of the caller", async () => {
      const own = await fundedAccount(gateway);
      const compactNative = () => compact({ model: MODELS.responses, ...REQUEST }, own);
      const compacted = await compactNative();
      const sent = await lastSimulatorRequest(gateway);
      expect(sent.path).toEndWith("/responses/compact");
      expect(JSON.parse(sent.body) as Json).toEqual({
        model: "gpt-5-mini",
        instructions: REQUEST["instructions"],
        input: CONVERSATION,
      });
      const output = outputOf(compacted);
      expect(output.map(({ type }) => type)).toEqual(["message", "compaction"]);
      expect(String(output[1]?.["encrypted_content"])).toStartWith("gAAAAAB");
      const [paid] = await usageRecordsOf(gateway.server.db, own.id);
      expect(Number(paid?.["cost_nano"])).toBeGreaterThan(0);
      expect((compacted["usage"] as Json)["cost"]).toBeCloseTo(
        Number(paid?.["cost_nano"]) / 1e9,
        9,
      );
      // The provider's item is passed on to it, and another provider cannot read it.
      const next = { input: [...output, { role: "user", content: "Go on." }] };
      await createResponse(gateway, own, { model: MODELS.responses, ...next });
      expect(JSON.stringify(await providerRequestBody(gateway))).toContain("gAAAAAB");
      const elsewhere = await call(gateway, own, "POST /v1/responses", {
        body: { model: MODELS.messages, ...next },
      });
      expect(elsewhere.status).toBe(400);
      expect(elsewhere.text).toContain("input[1]");
      const body = { provider: "openai", api_key: "sk-of-the-caller" };
      expect((await call(gateway, own, "POST /v1/provider-keys", { body })).status).toBe(201);
      await compactNative();
      expect((await lastSimulatorRequest(gateway)).path).toEndWith("/responses/compact");
      const records = await usageRecordsOf(gateway.server.db, own.id);
      expect(records.map((record) => Number(record["cost_nano"]) === 0)).toContain(true);
    });

    test("native compaction opens stored responses and sealed summaries first", async () => {
      const first = await createResponse(gateway, account, { model: "sim/echo", input: "alpha" });
      const sealed = outputOf(await compact({ model: "sim/echo", input: "omega" }));
      await compact({
        model: MODELS.responses,
        previous_response_id: first["id"],
        input: [...sealed, { role: "user", content: "beta" }],
      });
      const sent = await lastSimulatorRequest(gateway);
      expect(sent.path).toEndWith("/responses/compact");
      for (const part of ["alpha", "omega", "following summary", "beta"])
        expect(sent.body).toContain(part);
      expect(sent.body).not.toContain("pst-compaction");
      expect(sent.body).not.toContain(String(first["id"]));
    });

    test("a server at OpenAI's base URL without the endpoint gets the request for a summary", async () => {
      const old = Bun.serve({
        port: 0,
        fetch: async (request) => {
          const { pathname } = new URL(request.url);
          if (pathname.endsWith("/compact")) return new Response("no such page", { status: 404 });
          return fetch(gateway.simulatorUrl + pathname.replace(/^\/v1/, "/openai/v1"), {
            method: "POST",
            headers: { "content-type": "application/json", authorization: "Bearer x" },
            body: await request.text(),
          });
        },
      });
      const behind = await openGateway({
        store,
        env: { OPENAI_API_KEY: "sk-x", OPENAI_BASE_URL: `http://127.0.0.1:${old.port}/v1` },
      });
      try {
        const own = await fundedAccount(behind);
        const body = { model: MODELS.responses, ...REQUEST };
        const answer = await call(behind, own, "POST /v1/responses/compact", { body });
        expect([answer.status, answer.text.includes("pst-compaction-1.")]).toEqual([200, true]);
        const records = await usageRecordsOf(behind.server.db, own.id);
        expect(records).toHaveLength(1);
      } finally {
        await behind.stop();
        await old.stop(true);
      }
    });

    test("is charged like any other call", async () => {
      const ownAccount = await fundedAccount(gateway);
      const compacted = await compact({ model: "sim/echo", ...REQUEST }, ownAccount);
      const [record, ...others] = await usageRecordsOf(gateway.server.db, ownAccount.id);
      expect(others).toEqual([]);
      expect(Number(record?.["cost_nano"]) / 1e9).toBeCloseTo(
        Number((compacted["usage"] as Json)["cost"]),
        9,
      );
    });

    test("continues a stored response, and can be stored and continued itself", async () => {
      const first = await createResponse(gateway, account, { model: "sim/echo", input: "alpha" });
      const compacted = await compact({ model: "sim/echo", previous_response_id: first["id"] });
      expect(JSON.stringify(outputOf(compacted)[0])).toContain("alpha");
      const second = await createResponse(gateway, account, {
        model: "sim/echo",
        input: [...outputOf(compacted), { role: "user", content: "beta" }],
      });
      await createResponse(gateway, account, {
        model: MODELS.messages,
        input: "gamma",
        previous_response_id: second["id"],
      });
      const sent = JSON.stringify(await providerRequestBody(gateway));
      for (const part of ["alpha", "following summary", "beta", "gamma"])
        expect(sent).toContain(part);
    });

    test("cannot be opened by another account, or after a change", async () => {
      const [, item] = outputOf(await compact({ model: "sim/echo", input: "mine" }));
      const other = await fundedAccount(gateway);
      for (const [from, sent] of [
        [other, item],
        [account, { ...item, encrypted_content: "pst-compaction-1.AAAA" }],
      ] as const) {
        const answer = await call(gateway, from, "POST /v1/responses", {
          body: { model: "sim/echo", input: [sent, { role: "user", content: "x" }] },
        });
        expect([answer.status, errorOf(answer.json)["param"]]).toEqual([
          400,
          "input[0].encrypted_content",
        ]);
      }
    });

    test.each([
      [400, "input", { model: "sim/echo" }],
      [400, "input", { model: "sim/echo", input: 3 }],
      [400, "stream", { model: "sim/echo", input: "x", stream: true }],
      [400, "model", { input: "x" }],
      [
        400,
        "postern.compaction",
        { model: "sim/echo", input: "x", postern: { compaction: "none" } },
      ],
      [404, "model", { model: "sim/unknown", input: "x" }],
      [
        404,
        "previous_response_id",
        { model: "sim/echo", previous_response_id: `resp_${"0".repeat(26)}` },
      ],
    ] as const)("returns %i that names %s for %j", async (status, param, body) => {
      const answer = await call(gateway, account, "POST /v1/responses/compact", { body });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([status, param]);
    });
  });
}
