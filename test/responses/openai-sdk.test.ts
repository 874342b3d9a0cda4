// Stored responses with the official clients.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import { z } from "zod";
import { eventually } from "../support/eventually.ts";
import type { Gateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { MODELS, openGateway, fundedAccount } from "./harness.ts";

for (const store of STORE_KINDS) {
  describe(`the openai package on ${store}`, () => {
    let gateway: Gateway;
    let client: OpenAI;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      const { key } = await fundedAccount(gateway);
      client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    });
    afterAll(() => gateway.stop());

    for (const [wire, model] of Object.entries(MODELS))
      test(`creates, continues, retrieves, lists input items and deletes (${wire})`, async () => {
        const first = await client.responses.create({
          model,
          input: "My name is Ada.",
          store: true,
        });
        expect(first.output_text).toBe("You said: My name is Ada.");
        const stream = await client.responses.create({
          model,
          input: "What is my name?",
          previous_response_id: first.id,
          store: true,
          stream: true,
        });
        let id = "";
        for await (const event of stream)
          if (event.type === "response.completed") id = event.response.id;
        const second = await client.responses.retrieve(id, {
          include: ["reasoning.encrypted_content"],
        });
        expect(second.output_text).toBe("You said: What is my name?");
        expect(second.previous_response_id).toBe(first.id);
        const items = [];
        for await (const item of client.responses.inputItems.list(id, { order: "asc", limit: 1 }))
          items.push(item);
        expect(items).toMatchObject([
          { type: "message", content: [{ type: "input_text", text: "What is my name?" }] },
        ]);
        await client.responses.delete(id);
        const error = await client.responses.retrieve(id).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(NotFoundError);
      });

    test("pages through input items", async () => {
      const { id } = await client.responses.create({
        model: "sim/echo",
        input: Array.from({ length: 7 }, (_, index) => ({
          role: "user" as const,
          content: `item ${index}`,
        })),
        store: true,
      });
      const texts: string[] = [];
      for await (const item of client.responses.inputItems.list(id, { order: "asc", limit: 3 }))
        if (item.type === "message" && item.content[0]?.type === "input_text")
          texts.push(item.content[0].text);
      expect(texts).toEqual([0, 1, 2, 3, 4, 5, 6].map((index) => `item ${index}`));
    });

    test("polls and cancels background responses", async () => {
      const { id, status } = await client.responses.create({
        model: "sim/echo",
        input: "[[sim: latency=200]] poll me",
        background: true,
        store: true,
      });
      expect(status).toBe("in_progress");
      const response = await eventually(async () => {
        const polled = await client.responses.retrieve(id);
        return polled.status !== "in_progress" && polled;
      });
      expect([response.status, response.output_text]).toEqual(["completed", "You said: poll me"]);
      const slow = await client.responses.create({
        model: "sim/echo",
        input: "[[sim: tokens=400 chunks=400 pace=20]] x",
        background: true,
        store: true,
      });
      expect((await client.responses.cancel(slow.id)).status).toBe("cancelled");
    });

    test("throws typed errors", async () => {
      const missing = await client.responses
        .create({
          model: "sim/echo",
          input: "x",
          previous_response_id: `resp_${"0".repeat(26)}`,
        })
        .catch((error: unknown) => error);
      expect(missing).toBeInstanceOf(NotFoundError);
      expect(missing).toMatchObject({
        code: "previous_response_not_found",
        param: "previous_response_id",
      });
      const conversation = await client.responses
        .create({ model: "sim/echo", input: "x", conversation: "conv_1" })
        .catch((error: unknown) => error);
      expect(conversation).toBeInstanceOf(BadRequestError);
      expect(conversation).toMatchObject({ param: "conversation" });
    });
  });
}

describe("the ai package", () => {
  test("references stored items over several steps with tools and a second turn", async () => {
    const gateway = await openGateway({});
    const { key } = await fundedAccount(gateway);
    const provider = createOpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` });
    for (const model of Object.values(MODELS)) {
      const options = {
        model: provider.responses(model),
        providerOptions: { openai: { store: true } },
        tools: {
          weather: tool({
            description: "The weather in a city.",
            inputSchema: z.object({ city: z.string() }),
            execute: ({ city }) => Promise.resolve(`sunny in ${city}`),
          }),
        },
        stopWhen: stepCountIs(4),
      };
      const first = await generateText({
        ...options,
        prompt: "What is the weather?",
        prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "auto" }),
      });
      expect(first.steps.length).toBe(2);
      const second = await generateText({
        ...options,
        toolChoice: "none",
        messages: [
          { role: "user", content: "What is the weather?" },
          ...first.response.messages,
          { role: "user", content: "Thank you." },
        ],
      });
      expect(second.text).toBe("You said: Thank you.");
    }
    await gateway.stop();
  });
});
