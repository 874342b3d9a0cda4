// POST /v1/responses/compact: a sealed summary for every wire, which the next turn of any model accepts.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  errorOf,
  expectSettledLedger,
  type Json,
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

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

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
        const compacted = await compact({ model, ...REQUEST });
        expect(compacted["object"]).toBe("response.compaction");
        expect((compacted["usage"] as Json)["cost"]).toBeGreaterThan(0);
        const output = outputOf(compacted);
        expect(output.map(({ type }) => type)).toEqual(["message", "compaction"]);
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
