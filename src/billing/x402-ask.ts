// How others are asked about x402 payments, the facilitator and the node: JSON to JSON, within limits of time and size.

import { readBounded } from "../base/bounded-body.ts";

export interface Question {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly timeoutMs: number;
  readonly answerMaxBytes: number;
}

export interface Answer {
  readonly status: number;
  /** Undefined where it is no JSON. */
  readonly body: unknown;
}

export async function ask(
  url: string,
  { headers, body, timeoutMs, answerMaxBytes }: Question,
): Promise<Answer> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    redirect: "error",
    signal: AbortSignal.timeout(timeoutMs),
  });
  const bytes = await readBounded(response.body, answerMaxBytes);
  if (bytes === undefined)
    throw Object.assign(new Error(`the answer has more than ${answerMaxBytes} bytes`), {
      name: "AnswerTooLarge",
    });
  return { status: response.status, body: parsed(new TextDecoder().decode(bytes)) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
