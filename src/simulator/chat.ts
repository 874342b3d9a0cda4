// OpenAI's Chat Completions, as a provider answers it.

import { readChat } from "./chat-request.ts";
import { base62From, hashText, hexFrom } from "./hash.ts";
import type { Fields } from "./json.ts";
import { openAiWire } from "./openai.ts";
import type { Call, Choice, Finish, Reply } from "./reply.ts";
import { countTokens, cutToPieces } from "./tokens.ts";
import { dataEvent, spoilUsage, SSE_TYPE, type Frame, type Wire } from "./wire.ts";

const FINISH: Readonly<Record<Finish, string>> = {
  done: "stop",
  stop_string: "stop",
  tool: "tool_calls",
  length: "length",
  refusal: "stop",
  filter: "content_filter",
};

export const chat: Wire = {
  ...openAiWire,
  name: "chat",
  cachesUnasked: true,
  newline: "lf",
  read: readChat,
  whole: wholeChat,
  stream: streamChat,
  streamType: () => SSE_TYPE,
  failureFrame: (message) => ({
    data: dataEvent({ error: { message, type: "server_error", param: null, code: null } }),
  }),
  garbledFrame: {
    data: 'data: {"id":"chatcmpl-garbled","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"tor\n\n',
  },
  keepalive: { data: ": keepalive\n\n" },
};

function wholeChat(reply: Reply): unknown {
  const usage = chatUsage(reply);
  return {
    id: `chatcmpl-${base62From(reply.seed, 29)}`,
    object: "chat.completion",
    created: reply.createdSeconds,
    model: reply.model,
    choices: reply.choices.map((choice, index) => ({
      index,
      message: {
        role: "assistant",
        content:
          choice.refusal !== "" || (choice.text === "" && choice.calls.length > 0)
            ? null
            : choice.text,
        ...reasoningField(reply, choice.reasoning),
        ...(choice.calls.length === 0 ? {} : { tool_calls: choice.calls.map(toolCall) }),
        refusal: choice.refusal === "" ? null : choice.refusal,
        annotations: [],
      },
      logprobs: wantsLogprobs(reply)
        ? { content: logprobs(choice.text, reply), refusal: null }
        : null,
      finish_reason: FINISH[choice.finish],
    })),
    ...(usage === undefined ? {} : { usage }),
    service_tier: reply.serviceTier ?? "default",
    system_fingerprint: `fp_${hexFrom(hashText(reply.model), 10)}`,
  };
}

function* streamChat(reply: Reply): Generator<Frame> {
  const options = reply.ask.body["stream_options"];
  const asked =
    typeof options === "object" &&
    options !== null &&
    "include_usage" in options &&
    options.include_usage === true;
  const head = `data: ${JSON.stringify({
    id: `chatcmpl-${base62From(reply.seed, 29)}`,
    object: "chat.completion.chunk",
    created: reply.createdSeconds,
    model: reply.model,
    service_tier: reply.serviceTier ?? "default",
    system_fingerprint: `fp_${hexFrom(hashText(reply.model), 10)}`,
  }).slice(0, -1)}`;
  const tail = asked ? `,"usage":null}\n\n` : "}\n\n";
  const rows = reply.choices.map((choice, index) =>
    choiceFrames(reply, choice, { index, head, tail }),
  );
  // The replies to a request with `n` come mixed, one event of each in turn.
  for (let open = rows; open.length > 0;) {
    const still: Generator<Frame>[] = [];
    for (const row of open) {
      const next = row.next();
      if (next.done === true) continue;
      yield next.value;
      still.push(row);
    }
    open = still;
  }
  const usage = asked ? chatUsage(reply) : undefined;
  if (usage !== undefined)
    yield { data: `${head},"choices":[],"usage":${JSON.stringify(usage)}}\n\n`, usage: true };
  yield { data: "data: [DONE]\n\n", end: true };
}

interface Envelope {
  readonly index: number;
  readonly head: string;
  readonly tail: string;
}

function* choiceFrames(reply: Reply, choice: Choice, envelope: Envelope): Generator<Frame> {
  const { index, head, tail } = envelope;
  const frame = (delta: string, finish = "null", scored = "null"): string =>
    `${head},"choices":[{"index":${index},"delta":${delta},"logprobs":${scored},"finish_reason":${finish}}]${tail}`;
  const empty =
    choice.refusal !== "" || (choice.text === "" && choice.calls.length > 0) ? "null" : '""';
  yield {
    data: frame(
      `{"role":"assistant","content":${empty},"refusal":${choice.refusal === "" ? "null" : '""'}}`,
    ),
  };
  for (const piece of cutToPieces(choice.reasoning, 16)) {
    const field = reasoningField(reply, piece);
    if (Object.keys(field).length > 0) yield { data: frame(JSON.stringify(field)), delta: true };
  }
  for (const piece of choice.pieces) {
    const scored = wantsLogprobs(reply)
      ? JSON.stringify({ content: logprobs(piece, reply), refusal: null })
      : "null";
    yield { data: frame(`{"content":${JSON.stringify(piece)}}`, "null", scored), delta: true };
  }
  for (const piece of cutToPieces(choice.refusal, 8))
    yield { data: frame(`{"refusal":${JSON.stringify(piece)}}`), delta: true };
  for (const [at, call] of choice.calls.entries()) {
    for (const part of streamedCall(call, at))
      yield { data: frame(JSON.stringify({ tool_calls: [part] })), delta: true };
  }
  yield { data: frame("{}", JSON.stringify(FINISH[choice.finish])) };
}

function* streamedCall(call: Call, index: number): Generator<Fields> {
  const pieces = cutToPieces(call.input, Math.min(32, countTokens(call.input)));
  if (call.freeform) {
    yield { index, id: callId(call), type: "custom", custom: { name: call.name, input: "" } };
    for (const input of pieces) yield { index, custom: { input } };
    return;
  }
  yield { index, id: callId(call), type: "function", function: { name: call.name, arguments: "" } };
  for (const piece of pieces) yield { index, function: { arguments: piece } };
}

function toolCall(call: Call): Fields {
  return call.freeform
    ? { id: callId(call), type: "custom", custom: { name: call.name, input: call.input } }
    : { id: callId(call), type: "function", function: { name: call.name, arguments: call.input } };
}

function callId(call: Call): string {
  return `call_${base62From(call.seed, 24)}`;
}

function reasoningField(reply: Reply, text: string): Fields {
  const field = reply.order["reasoning-field"] ?? "reasoning_content";
  return text === "" || field === "none" ? {} : { [field]: text };
}

function chatUsage(reply: Reply): Fields | undefined {
  const { input, output, read, write5m, write1h, reasoning } = reply.counts;
  const prompt = input + read + write5m + write1h;
  const completion = output + reasoning;
  const written = write5m + write1h;
  return spoilUsage(
    {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      prompt_tokens_details: {
        cached_tokens: read,
        ...(written === 0 ? {} : { cache_write_tokens: written }),
        audio_tokens: reply.ask.audioTokens,
      },
      completion_tokens_details: {
        reasoning_tokens: reasoning,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    },
    reply.order,
  );
}

function wantsLogprobs(reply: Reply): boolean {
  return reply.ask.body["logprobs"] === true;
}

function logprobs(text: string, reply: Reply): unknown[] {
  const wanted = Number(reply.ask.body["top_logprobs"] ?? 0);
  return cutToPieces(text, countTokens(text)).map((token, index) => {
    const entry = (shown: string, logprob: number): Fields => ({
      token: shown,
      logprob,
      bytes: [...new TextEncoder().encode(shown)],
    });
    const others = ["…", "?", "!", "-"].map((other, place) => entry(other, -2 - place));
    const own = entry(token, -(index % 8) / 16);
    return Object.assign(
      { top_logprobs: wanted > 0 ? [own, ...others].slice(0, wanted) : [] },
      own,
    );
  });
}
