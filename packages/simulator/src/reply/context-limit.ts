// The refusal of a request beyond the model's context, in the words of each provider.

import type { ApiError, SimulatedWire } from "../wires/simulated-wire.ts";
import { type NormalizedRequest, promptTokens } from "./normalized-request.ts";

interface ContextUse {
  readonly prompt: number;
  /** The requested output limit; 0 without one. */
  readonly output: number;
  readonly limit: number;
}

/** OpenAI's Chat Completions and Anthropic's API count the output limit as well; the others only the prompt. */
const REFUSALS: Readonly<Record<SimulatedWire["name"], (use: ContextUse) => ApiError | undefined>> =
  {
    chat: ({ prompt, output, limit }) =>
      prompt + output > limit
        ? {
            status: 400,
            message: `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + output} tokens (${prompt} in the messages, ${output} in the completion). Please reduce the length of the messages or completion.`,
            param: "messages",
            code: "context_length_exceeded",
          }
        : undefined,
    responses: ({ prompt, limit }) =>
      prompt > limit
        ? {
            status: 400,
            message:
              "Your input exceeds the context window of this model. Please adjust your input and try again.",
            param: "input",
            code: "context_length_exceeded",
          }
        : undefined,
    messages: ({ prompt, output, limit }) => {
      if (prompt > limit)
        return { status: 400, message: `prompt is too long: ${prompt} tokens > ${limit} maximum` };
      return prompt + output > limit
        ? {
            status: 400,
            message: `input length and \`max_tokens\` exceed context limit: ${prompt} + ${output} > ${limit}, decrease input length or \`max_tokens\` and try again`,
          }
        : undefined;
    },
    gemini: ({ prompt, limit }) =>
      prompt > limit
        ? {
            status: 400,
            message: `The input token count (${prompt}) exceeds the maximum number of tokens allowed (${limit}).`,
          }
        : undefined,
    converse: ({ prompt, limit }) =>
      prompt > limit
        ? { status: 400, message: "Input is too long for requested model." }
        : undefined,
  };

export function contextLimitError(
  wire: SimulatedWire["name"],
  request: NormalizedRequest,
  limit: number | undefined,
): ApiError | undefined {
  if (limit === undefined) return undefined;
  return REFUSALS[wire]({ prompt: promptTokens(request), output: request.maxTokens ?? 0, limit });
}
