// The provider of the money fuzzer. It finds the case of a request by the number in its prompt, does what the case says, and
// keeps what it bills.

import { createServer, type ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import type { Json } from "../../inference/support/harness.ts";
import { inputTokensOf, type MoneyCase, runsOf } from "./money-cases.ts";

/** What the provider bills for one request. */
export interface Bill {
  readonly inputTokens: number;
  /** How often a tool had the model read the prompt again. */
  readonly runs: number;
  outputTokens: number;
  /** Set if the whole reply with its usage was sent. */
  isReported: boolean;
  /** Set if it states an error or closes the connection: it bills nothing then. */
  isFailed: boolean;
}

export interface RunningCase {
  readonly plan: MoneyCase;
  readonly bills: Bill[];
  /** Resolves when the provider has sent what comes before the caller leaves. */
  readonly reached: PromiseWithResolvers<void>;
  /** Resolves when the caller has left. */
  readonly left: PromiseWithResolvers<void>;
  /** Requests that the provider has not ended. */
  open: number;
}

export interface MoneyProvider {
  readonly url: string;
  readonly running: Map<number, RunningCase>;
  readonly stop: () => Promise<void>;
}

const MARK = /case-(\d+)-/;
const WORD = " abc";
/** A caller's departure reaches the provider in less. */
const DEPARTURE_MS = 100;
const DEPARTURE_TURNS = 8;
/** Of a message whose tokens are counted. */
const FRAME_TOKENS = 7;

export async function startMoneyProvider(): Promise<MoneyProvider> {
  const running = new Map<number, RunningCase>();
  const server = createServer((request, response) => {
    void textOf(request).then((body) => {
      if (request.url?.endsWith("/count_tokens") === true) {
        response.end(JSON.stringify({ input_tokens: countOf(body) }));
        return undefined;
      }
      const found = running.get(Number(MARK.exec(body)?.[1] ?? -1));
      if (found === undefined) {
        response.writeHead(500).end("no such case");
        return undefined;
      }
      return respond(found, response, request.url ?? "", JSON.parse(body) as Json);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    running,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** As the provider counts what it has produced, with the frame of a message. */
function countOf(body: string): number {
  return (body.match(/abc/g)?.length ?? 1) + FRAME_TOKENS;
}

type Wire = "chat" | "responses" | "messages";

async function respond(
  run: RunningCase,
  response: ServerResponse,
  path: string,
  body: Json,
): Promise<void> {
  const { plan } = run;
  const wire: Wire = path.endsWith("/responses")
    ? "responses"
    : path.endsWith("/messages")
      ? "messages"
      : "chat";
  const runs = runsOf(plan, numberIn(body["max_tool_calls"]));
  const bill: Bill = {
    inputTokens: inputTokensOf(plan, runs),
    runs,
    outputTokens: 0,
    isReported: false,
    isFailed: false,
  };
  run.bills.push(bill);
  if (plan.provider === "refuses") {
    bill.isFailed = true;
    run.reached.resolve();
    response.writeHead(500, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: { message: "busy", type: "server_error" } }));
    return;
  }
  run.open += 1;
  response.once("close", () => {
    run.open -= 1;
  });
  const isStream = body["stream"] === true;
  const type = isStream ? "text/event-stream" : "application/json";
  response.writeHead(200, { "content-type": type }).flushHeaders();
  await (isStream ? sendStream : sendWhole)(run, response, wire, bill);
}

function numberIn(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function usageOf({ plan }: RunningCase, wire: Wire, bill: Bill): Json | undefined {
  if (plan.provider === "reports_nothing") return undefined;
  const isLie = plan.provider === "lies";
  const [input, output] = isLie ? [plan.lie, plan.lie] : [bill.inputTokens, bill.outputTokens];
  const cost = plan.provider === "states_cost" ? { cost: plan.statedUsd } : {};
  return wire === "chat"
    ? {
        prompt_tokens: input,
        completion_tokens: output,
        ...(isLie ? {} : { total_tokens: bill.inputTokens + bill.outputTokens }),
        ...cost,
      }
    : { input_tokens: input, output_tokens: output, ...cost };
}

async function sendWhole(
  run: RunningCase,
  response: ServerResponse,
  wire: Wire,
  bill: Bill,
): Promise<void> {
  const { plan } = run;
  run.reached.resolve();
  if (plan.caller === "leaves") await departure(run, response);
  if (plan.provider === "falls_silent") return;
  if (plan.provider === "cuts" || plan.provider === "states_an_error") {
    bill.isFailed = true;
    if (plan.provider === "cuts") response.destroy();
    else response.end(JSON.stringify(errorOf("chat")));
    return;
  }
  bill.outputTokens = plan.chunks * plan.tokensPerChunk;
  bill.isReported = plan.provider !== "reports_nothing" && plan.provider !== "lies";
  response.end(JSON.stringify(wholeReply(run, wire, bill, WORD.repeat(bill.outputTokens))));
}

function wholeReply(run: RunningCase, wire: Wire, bill: Bill, text: string): Json {
  const usage = usageOf(run, wire, bill);
  const named = { model: modelName(run.plan), ...(usage === undefined ? {} : { usage }) };
  if (wire === "chat") {
    const message = { role: "assistant", content: text };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    return { id: "c", object: "chat.completion", created: 1, choices, ...named };
  }
  const content = [{ type: wire === "messages" ? "text" : "output_text", text }];
  if (wire === "messages")
    return {
      id: "m",
      type: "message",
      role: "assistant",
      content,
      stop_reason: "end_turn",
      ...named,
    };
  const output = [{ type: "message", id: "i", role: "assistant", status: "completed", content }];
  return { id: "r", object: "response", status: "completed", output, ...named };
}

function modelName({ price }: MoneyCase): string {
  return price.model.slice(price.model.indexOf("/") + 1);
}

async function sendStream(
  run: RunningCase,
  response: ServerResponse,
  wire: Wire,
  bill: Bill,
): Promise<void> {
  const { plan } = run;
  const emit = (data: Json): void => {
    const name = wire === "chat" ? "" : `event: ${String(data["type"])}\n`;
    response.write(`${name}data: ${JSON.stringify(data)}\n\n`);
  };
  for (const event of openingOf(run, wire, bill)) emit(event);
  for (let chunk = 0; chunk < plan.chunks; chunk++) {
    // The gateway has closed the connection.
    if (response.destroyed) return;
    emit(deltaOf(wire, WORD.repeat(plan.tokensPerChunk)));
    bill.outputTokens += plan.tokensPerChunk;
    if (chunk === plan.stopsAfter && (await stops(run, response, wire, bill))) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (response.destroyed) return;
  for (const event of endingOf(run, wire, bill)) emit(event);
  if (wire === "chat") response.write("data: [DONE]\n\n");
  bill.isReported = plan.provider !== "reports_nothing" && plan.provider !== "lies";
  response.end();
}

/** Returns whether the stream ends here. */
async function stops(
  run: RunningCase,
  response: ServerResponse,
  wire: Wire,
  bill: Bill,
): Promise<boolean> {
  const { plan } = run;
  run.reached.resolve();
  if (plan.caller === "leaves") await departure(run, response);
  if (plan.provider === "falls_silent") return true;
  if (plan.provider !== "cuts" && plan.provider !== "states_an_error") return false;
  bill.isFailed = true;
  if (plan.provider === "cuts") response.destroy();
  else response.end(`data: ${JSON.stringify(errorOf(wire))}\n\n`);
  return true;
}

/** Waits until the caller has left, and until its departure gets here or the gateway reads on. */
async function departure(run: RunningCase, response: ServerResponse): Promise<void> {
  await run.left.promise;
  // Nothing tells the provider that the gateway reads on, so it waits longer than a close needs. All share an event loop.
  const startedAt = performance.now();
  const isDone = (turns: number): boolean =>
    turns >= DEPARTURE_TURNS && performance.now() - startedAt > DEPARTURE_MS;
  for (let turns = 0; !isDone(turns) && !response.destroyed; turns++)
    await new Promise((resolve) => setTimeout(resolve, 1));
}

function openingOf(run: RunningCase, wire: Wire, bill: Bill): readonly Json[] {
  const model = modelName(run.plan);
  if (wire === "chat") return [chatChunk(model, { role: "assistant", content: "" }, null)];
  if (wire === "messages") {
    const usage = usageOf(run, wire, bill);
    const message = { id: "m", type: "message", role: "assistant", model, content: [] };
    return [
      { type: "message_start", message: { ...message, ...(usage === undefined ? {} : { usage }) } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ];
  }
  const response = { id: "r", object: "response", status: "in_progress", model, output: [] };
  const item = { type: "message", id: "i", role: "assistant", status: "in_progress", content: [] };
  const part = { type: "output_text", text: "", annotations: [] };
  return [
    { type: "response.created", sequence_number: 0, response },
    { type: "response.output_item.added", sequence_number: 1, output_index: 0, item },
    {
      type: "response.content_part.added",
      sequence_number: 2,
      item_id: "i",
      output_index: 0,
      content_index: 0,
      part,
    },
    ...Array.from({ length: bill.runs }, (_, index) => ({
      type: "response.output_item.added",
      sequence_number: 2,
      output_index: index + 1,
      item: { type: "mcp_call", id: `mcp_${index}`, server_label: "m", name: "t", arguments: "" },
    })),
  ];
}

function chatChunk(model: string, delta: Json, finish_reason: string | null): Json {
  const choices = [{ index: 0, delta, finish_reason }];
  return { id: "c", object: "chat.completion.chunk", created: 1, model, choices };
}

function deltaOf(wire: Wire, text: string): Json {
  if (wire === "chat") return chatChunk("m", { content: text }, null);
  if (wire === "messages")
    return { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } };
  return {
    type: "response.output_text.delta",
    sequence_number: 3,
    item_id: "i",
    output_index: 0,
    content_index: 0,
    delta: text,
  };
}

function endingOf(run: RunningCase, wire: Wire, bill: Bill): readonly Json[] {
  const model = modelName(run.plan);
  const usage = usageOf(run, wire, bill);
  if (wire === "chat")
    return [
      chatChunk(model, {}, "stop"),
      ...(usage === undefined ? [] : [{ ...chatChunk(model, {}, null), choices: [], usage }]),
    ];
  if (wire === "messages")
    return [
      { type: "content_block_stop", index: 0 },
      {
        type: "message_delta",
        delta: { stop_reason: "end_turn" },
        ...(usage === undefined ? {} : { usage }),
      },
      { type: "message_stop" },
    ];
  const text = WORD.repeat(bill.outputTokens);
  return [
    { type: "response.completed", sequence_number: 9, response: wholeReply(run, wire, bill, text) },
  ];
}

function errorOf(wire: Wire): Json {
  const error = { type: "server_error", code: "server_error", message: "broken" };
  if (wire === "responses") return { ...error, type: "error", sequence_number: 4 };
  return wire === "messages" ? { type: "error", error } : { error };
}
