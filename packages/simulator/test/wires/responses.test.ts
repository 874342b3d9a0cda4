import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import {
  createClient,
  eventData,
  json,
  rejectionReason,
  serveSimulator,
  type SimulatorServer,
} from "../simulator-harness.ts";

let simulator: SimulatorServer;
let client: OpenAI;
beforeAll(() => {
  simulator = serveSimulator();
  client = new OpenAI({ apiKey: "k", baseURL: `${simulator.url}/v1`, maxRetries: 0 });
});
afterAll(() => simulator.stop());

const tool = {
  type: "function" as const,
  name: "get_weather",
  strict: false,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const reasoning = { effort: "low" as const, summary: "auto" as const };

describe("Responses with the OpenAI SDK", () => {
  test("returns a response", async () => {
    const reply = await client.responses.create({ model: "sim/echo", input: "Hello there" });
    expect(reply.output_text).toBe("You said: Hello there");
    expect(reply.status).toBe("completed");
    expect(reply.usage).toEqual({
      input_tokens: 3,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 6,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 9,
    } as never);
  });

  test("streams the same response", async () => {
    const body = {
      model: "sim/echo",
      input: "Hello there",
      reasoning,
      include: ["reasoning.encrypted_content" as const],
    };
    const gathered = await client.responses.stream(body).finalResponse();
    const whole = await client.responses.create(body);
    expect(gathered.output_text).toBe(whole.output_text);
    const { id: _id, ...rest } = whole.usage as unknown as Record<string, unknown>;
    expect(gathered.usage as unknown).toEqual(rest);
    expect(gathered.output.map((item) => item.type)).toEqual(["reasoning", "message"]);
  });

  test("calls a tool and replies to its result", async () => {
    const input: OpenAI.Responses.ResponseInput = [
      { role: "user", content: "Please call get_weather" },
    ];
    const first = await client.responses.create({ model: "sim/echo", input, tools: [tool] });
    const call = first.output.find((item) => item.type === "function_call");
    expect(call).toMatchObject({
      name: "get_weather",
      arguments: '{"city":"example city"}',
      status: "completed",
    });
    input.push(...(first.output as OpenAI.Responses.ResponseInput), {
      type: "function_call_output",
      call_id: call?.call_id ?? "",
      output: "17 degrees",
    });
    const second = await client.responses.create({ model: "sim/echo", input, tools: [tool] });
    expect(second.output_text).toBe("The tool answered: 17 degrees");
  });

  test("throws the SDK's typed errors", async () => {
    expect(
      await rejectionReason(client.responses.create({ model: "nope", input: "x" })),
    ).toMatchObject({
      status: 400,
      code: "model_not_found",
    });
    expect(
      await rejectionReason(
        client.responses.create({ model: "sim/echo", input: "x", max_output_tokens: 1 }),
      ),
    ).toMatchObject({ status: 400, code: "integer_below_min_value" });
    expect(
      await rejectionReason(
        client.responses.create({ model: "sim/echo", input: "x", previous_response_id: "resp_1" }),
      ),
    ).toMatchObject({ code: "previous_response_not_found" });
  });
});

describe("stream events", () => {
  const send = createClient();
  const events = async (body: Record<string, unknown>) =>
    eventData(
      await (await send("/v1/responses", { model: "sim/echo", stream: true, ...body })).text(),
    );
  const kinds = (list: { type: string }[]) =>
    list
      .map((event) => event.type.replace("response.", ""))
      .filter((type, index, all) => type !== all[index - 1]);

  test("text", async () => {
    const list = await events({ input: "Hello" });
    expect(kinds(list)).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "content_part.added",
      "output_text.delta",
      "output_text.done",
      "content_part.done",
      "output_item.done",
      "completed",
    ]);
    expect(list.map((event) => event.sequence_number)).toEqual(list.map((_, index) => index));
    expect(
      list
        .filter((event) => event.type.endsWith("text.delta"))
        .map((event) => event.delta)
        .join(""),
    ).toBe("You said: Hello");
    expect(list.at(-1).response.output[0].content[0].text).toBe("You said: Hello");
    expect(list[0].response).toMatchObject({ status: "in_progress", usage: null, output: [] });
  });

  test("reasoning with a summary, then a tool call", async () => {
    const list = await events({
      input: "go",
      reasoning,
      tools: [tool],
      tool_choice: "required",
      include: ["reasoning.encrypted_content"],
    });
    expect(kinds(list)).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "reasoning_summary_part.added",
      "reasoning_summary_text.delta",
      "reasoning_summary_text.done",
      "reasoning_summary_part.done",
      "output_item.done",
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "completed",
    ]);
    const last = list.at(-1).response;
    expect(last.output[0].encrypted_content).toStartWith("gAAAAAB");
    expect(last.usage.output_tokens_details.reasoning_tokens).toBe(16);
  });

  test("no summary or encrypted content unless requested", async () => {
    const { output, usage } = await json(
      send("/v1/responses", { model: "sim/reason", input: "hi" }),
    );
    expect(output[0]).toEqual({ id: output[0].id, type: "reasoning", summary: [] });
    expect(usage.output_tokens_details.reasoning_tokens).toBe(32);
  });

  test("a custom tool", async () => {
    const list = await events({
      input: "go",
      tools: [{ type: "custom", name: "shell" }],
      tool_choice: "required",
    });
    expect(kinds(list)).toContain("custom_tool_call_input.delta");
    expect(list.at(-1).response.output[0]).toMatchObject({
      type: "custom_tool_call",
      input: "input for shell",
      name: "shell",
    });
  });

  test("a refusal", async () => {
    const list = await events({ input: "[[sim: refusal]]" });
    expect(kinds(list)).toContain("refusal.delta");
    expect(list.at(-1).response.output[0].content[0].type).toBe("refusal");
  });

  test("a truncated response is incomplete", async () => {
    const list = await events({ input: "x".repeat(200), max_output_tokens: 16 });
    expect(list.at(-1)).toMatchObject({
      type: "response.incomplete",
      response: {
        status: "incomplete",
        incomplete_details: { reason: "max_output_tokens" },
        usage: { output_tokens: 16 },
      },
    });
    const filtered = await json(
      send("/v1/responses", { model: "sim/echo", input: "x [[sim: filter]]" }),
    );
    expect(filtered.incomplete_details).toEqual({ reason: "content_filter" });
  });
});

test("accepts images and files and returns structured output", async () => {
  const send = createClient();
  const content = [
    { type: "input_text", text: "Look" },
    { type: "input_image", image_url: "data:x" },
    { type: "input_file", file_data: "data:y" },
  ];
  const reply = await json(
    send("/v1/responses", { model: "sim/echo", input: [{ role: "user", content }] }),
  );
  expect(reply.output[0].content[0].text).toBe("You said: Look (with 1 image, 1 file)");
  const format = {
    type: "json_schema",
    name: "a",
    schema: { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] },
  };
  const structured = await json(
    send("/v1/responses", { model: "sim/echo", input: "x", text: { format } }),
  );
  expect(JSON.parse(structured.output[0].content[0].text)).toEqual({ ok: true });
});

test("counts input tokens", async () => {
  const send = createClient();
  expect(
    await json(send("/v1/responses/input_tokens", { model: "sim/echo", input: "12345" })),
  ).toEqual({ object: "response.input_tokens", input_tokens: 2 });
});

test("rejects invalid requests", async () => {
  const send = createClient();
  for (const body of [
    "nonsense",
    { input: "x" },
    { model: "sim/echo" },
    { model: "sim/echo", input: [{ role: "robot", content: "x" }] },
    { model: "sim/echo", input: "x", reasoning: { effort: "huge" } },
    { model: "sim/echo", input: "x", text: { format: { type: "json" } } },
    { model: "sim/echo", input: [{ type: "function_call_output", call_id: "a", output: "x" }] },
    {
      model: "sim/echo",
      input: [{ type: "function_call", call_id: "a", name: "f", arguments: "{}" }],
    },
  ]) {
    expect((await send("/v1/responses", body)).status).toBe(400);
  }
});

describe("previous_response_id", () => {
  test("continues a stored response but not one with store: false", async () => {
    const input: OpenAI.Responses.ResponseInput = [
      { role: "user", content: "Please call get_weather" },
    ];
    const first = await client.responses.create({ model: "sim/echo", input, tools: [tool] });
    const call = first.output.find((item) => item.type === "function_call");
    const second = await client.responses.create({
      model: "sim/echo",
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call?.call_id ?? "", output: "17 degrees" }],
    });
    expect(second.output_text).toBe("The tool answered: 17 degrees");
    expect(second.usage?.input_tokens).toBeGreaterThan(10);
    const unstored = await client.responses.create({
      model: "sim/echo",
      input: "hi",
      store: false,
    });
    const lost = client.responses.create({
      model: "sim/echo",
      input: "x",
      previous_response_id: unstored.id,
    });
    expect(await rejectionReason(lost)).toMatchObject({ code: "previous_response_not_found" });
  });
});
