// Batches and files with the official SDKs, unmodified.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic, { ConflictError as AnthropicConflictError } from "@anthropic-ai/sdk";
import OpenAI, { ConflictError, NotFoundError, toFile } from "openai";
import type { Json } from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { chatRequest, openaiRequests, setBatchFaults } from "./batch-harness.ts";

for (const store of STORE_KINDS) {
  describe(`batches with SDKs on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const openai = async (): Promise<OpenAI> => {
      const { key: apiKey } = await fundedAccount(gateway);
      return new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    };

    for (const [model, processing] of [
      ["sim/echo", "gateway"],
      ["openai/gpt-5-mini", "provider"],
    ] as const)
      test(`openai: upload, create, retrieve, list, content, delete (by the ${processing})`, async () => {
        const client = await openai();
        const lines = ["first", "second"].map((id) =>
          JSON.stringify({
            ...chatRequest(id, "Grüße", { model }),
            method: "POST",
            url: "/v1/chat/completions",
          }),
        );
        // Longer than one part of the store.
        const padding = " ".repeat(1_500_000);
        const content = `${lines.join(`${padding}\n`)}\n`;
        const file = await client.files.create({
          file: await toFile(Buffer.from(content), "requests.jsonl"),
          purpose: "batch",
        });
        expect(file).toMatchObject({
          filename: "requests.jsonl",
          purpose: "batch",
          bytes: Buffer.byteLength(content),
        });
        expect(await (await client.files.content(file.id)).text()).toBe(content);
        expect((await client.files.retrieve(file.id)).id).toBe(file.id);
        const batch = await client.batches.create({
          input_file_id: file.id,
          endpoint: "/v1/chat/completions",
          completion_window: "24h",
          metadata: { job: "one" },
        });
        expect(batch).toMatchObject({ processing });
        const ended = await eventually(async () => {
          const read = await client.batches.retrieve(batch.id);
          return read.status === "completed" ? read : undefined;
        });
        expect(ended.request_counts).toEqual({ total: 2, completed: 2, failed: 0 });
        const output = await (await client.files.content(ended.output_file_id ?? "")).text();
        const [first] = output.split("\n");
        const parsed = JSON.parse(first ?? "") as Json;
        expect(parsed["custom_id"]).toBe("first");
        expect(JSON.stringify(parsed)).toContain("Grüße");
        const listed: string[] = [];
        for await (const one of client.batches.list({ limit: 1 })) listed.push(one.id);
        expect(listed).toContain(batch.id);
        const purposes: string[] = [];
        for await (const one of client.files.list({ limit: 1 })) purposes.push(one.purpose);
        expect(purposes.toSorted()).toEqual(["batch", "batch_output"]);
        expect((await client.files.delete(file.id)).deleted).toBe(true);
        expect(
          await client.files.retrieve(file.id).catch((error: unknown) => error),
        ).toBeInstanceOf(NotFoundError);
        const canceled = await client.batches.cancel(batch.id).catch((error: unknown) => error);
        expect(canceled).toBeInstanceOf(ConflictError);
      });

    test("openai: cancel a batch that the provider runs", async () => {
      await setBatchFaults(gateway, { hold: true });
      const client = await openai();
      const content = openaiRequests(3).map((request) =>
        JSON.stringify({ ...request, method: "POST", url: "/v1/chat/completions" }),
      );
      const file = await client.files.create({
        file: await toFile(Buffer.from(content.join("\n")), "requests.jsonl"),
        purpose: "batch",
      });
      const batch = await client.batches.create({
        input_file_id: file.id,
        endpoint: "/v1/chat/completions",
        completion_window: "24h",
      });
      expect(batch).toMatchObject({ status: "in_progress", processing: "provider" });
      expect((await client.batches.cancel(batch.id)).status).toBe("cancelling");
      const ended = await eventually(async () => {
        const read = await client.batches.retrieve(batch.id);
        return read.status === "cancelled" ? read : undefined;
      });
      await setBatchFaults(gateway, {});
      expect(ended.request_counts).toEqual({ total: 3, completed: 0, failed: 3 });
    });

    test("anthropic: create, retrieve, list, results, delete", async () => {
      const client = new Anthropic({ apiKey: account.key, baseURL: gateway.url, maxRetries: 0 });
      const params = {
        model: "anthropic/claude-haiku-4-5",
        max_tokens: 64,
        messages: [{ role: "user" as const, content: "Hi" }],
      };
      const batch = await client.messages.batches.create({
        requests: [
          { custom_id: "good", params },
          { custom_id: "bad", params: { ...params, model: "anthropic/nothing" } },
        ],
      });
      expect(batch).toMatchObject({
        type: "message_batch",
        processing_status: "in_progress",
        processing: "provider",
        provider: "anthropic",
      });
      await eventually(async () => {
        const read = await client.messages.batches.retrieve(batch.id);
        return read.processing_status === "ended";
      });
      const results: Json = {};
      for await (const { custom_id, result } of await client.messages.batches.results(batch.id))
        results[custom_id] = result;
      expect(results).toMatchObject({
        good: { type: "succeeded", message: { type: "message", role: "assistant" } },
        bad: { type: "errored", error: { type: "error", error: { type: "not_found_error" } } },
      });
      const listed: string[] = [];
      for await (const one of client.messages.batches.list({ limit: 1 })) listed.push(one.id);
      expect(listed).toContain(batch.id);
      expect(await client.messages.batches.delete(batch.id)).toMatchObject({
        id: batch.id,
        type: "message_batch_deleted",
      });
      expect((await call(gateway, account, `GET /v1/messages/batches/${batch.id}`)).status).toBe(
        404,
      );
    });

    test("anthropic: cancel a batch that the provider runs", async () => {
      await setBatchFaults(gateway, { hold: true });
      const client = new Anthropic({ apiKey: account.key, baseURL: gateway.url, maxRetries: 0 });
      const params = {
        model: "anthropic/claude-haiku-4-5",
        max_tokens: 64,
        messages: [{ role: "user" as const, content: "Hi" }],
      };
      const requests = ["a", "b"].map((custom_id) => ({ custom_id, params }));
      const batch = await client.messages.batches.create({ requests });
      expect(batch).toMatchObject({ processing: "provider" });
      expect((await client.messages.batches.cancel(batch.id)).processing_status).toBe("canceling");
      const ended = await eventually(async () => {
        const read = await client.messages.batches.retrieve(batch.id);
        return read.processing_status === "ended" ? read : undefined;
      });
      await setBatchFaults(gateway, {});
      expect(ended.request_counts).toMatchObject({ canceled: 2, succeeded: 0 });
    });

    test("anthropic: cancel", async () => {
      const client = new Anthropic({ apiKey: account.key, baseURL: gateway.url, maxRetries: 0 });
      const params = {
        model: "sim/echo",
        max_tokens: 64,
        messages: [{ role: "user" as const, content: "[[sim: latency=1500]] later" }],
      };
      const batch = await client.messages.batches.create({
        requests: Array.from({ length: 40 }, (_, index) => ({
          custom_id: `slow-${index}`,
          params,
        })),
      });
      expect(
        await client.messages.batches.delete(batch.id).catch((error: unknown) => error),
      ).toBeInstanceOf(AnthropicConflictError);
      expect((await client.messages.batches.cancel(batch.id)).processing_status).toBe("canceling");
      const ended = await eventually(async () => {
        const read = await client.messages.batches.retrieve(batch.id);
        return read.processing_status === "ended" ? read : undefined;
      });
      expect(ended.request_counts.canceled).toBeGreaterThan(0);
    });
  });
}
