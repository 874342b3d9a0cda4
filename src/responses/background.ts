// Responses that nobody waits for. The call runs in this process like any other, with the same hold and settle; its record
// says that it is in progress from the hold on, and how it ended. Cancelling stops the provider, and what was metered is
// charged.

import { Fault } from "../base/fault.ts";
import type { Log } from "../base/log.ts";
import { isObject, type Json } from "../inference/ask.ts";
import type { CallInput, IdempotentCall, StoredReply } from "../inference/call.ts";
import type { Db, Tx } from "../store/db.ts";
import { DIED } from "./record.ts";
import { insertResponse, stillWanted, stopResponse } from "./rows.ts";
import type { Turn } from "./turn.ts";

const RUNNING_MAX = 256;
const RUNNING_PER_ACCOUNT_MAX = 16;
const RETRY_SECONDS = 5;

export interface Background {
  /** Answers as soon as the money is held, or throws what the call was refused with. */
  readonly start: (turn: Turn, input: CallInput) => Promise<Response>;
  readonly stop: (id: string) => void;
  /** Stops what was cancelled or deleted, also through another process. */
  readonly watch: () => Promise<void>;
  /** The process ends: what runs is stopped, has failed, and says why. */
  readonly stopAll: () => void;
  readonly idle: () => Promise<void>;
}

export interface BackgroundParts {
  readonly db: Db;
  readonly log: Log;
  readonly infer: (input: CallInput) => Promise<Response>;
  /** Keeps the answer to an `Idempotency-Key` in the step that writes the record. */
  readonly finishCall: (
    tx: Tx,
    call: IdempotentCall & { readonly holdId: string },
    answer: StoredReply,
  ) => Promise<void>;
}

interface Running {
  readonly accountId: string;
  readonly abort: AbortController;
  /** Whether it has its record. */
  accepted: boolean;
  work: Promise<void>;
}

export function createBackground(parts: BackgroundParts): Background {
  const { db, log } = parts;
  const running = new Map<string, Running>();
  let isEnding = false;

  const start: Background["start"] = async (turn, input) => {
    const { accountId } = input.caller;
    refuseTooMany([...running.values()], accountId);
    const abort = new AbortController();
    const accepted = Promise.withResolvers<string>();
    const one: Running = { accountId, abort, accepted: false, work: Promise.resolve() };
    const held = async (): Promise<void> => {
      if (one.accepted) return;
      const head = headOf(turn);
      const body = JSON.stringify(head);
      await db.write(async (tx) => {
        await insertResponse(tx, turn.record("in_progress", head));
        if (input.idempotent === undefined) return;
        const call = { ...input.idempotent, holdId: input.requestId };
        await parts.finishCall(tx, call, { status: 200, body });
      });
      one.accepted = true;
      accepted.resolve(body);
    };
    const detached = {
      ...input,
      signal: abort.signal,
      idempotent: undefined,
      bringsPayment: false,
      state: { ...turn.call, held },
    };
    const run = async (): Promise<void> => {
      let failure: Json | undefined;
      try {
        await readToEnd(await parts.infer(detached), abort.signal);
        if (!one.accepted) throw new Error("a background call ended that held nothing");
        failure = isEnding ? DIED : turn.seen.failure;
      } catch (error) {
        if (!one.accepted) return accepted.reject(error);
        failure = { message: error instanceof Fault ? error.publicMessage : undefined };
      }
      await db.write((tx) => failUnended(tx, turn, accountId, failure));
    };
    running.set(turn.id, one);
    one.work = run()
      .catch((error: unknown) =>
        log.error("a background response has no end", { response_id: turn.id, cause: error }),
      )
      .finally(() => running.delete(turn.id));
    const body = await accepted.promise;
    return new Response(body, {
      headers: { "content-type": "application/json", "cache-control": "no-store" },
    });
  };

  return {
    start,
    stop: (id) => running.get(id)?.abort.abort(),
    watch: async () => {
      const ids = [...running].filter(([, one]) => one.accepted).map(([id]) => id);
      const wanted = await stillWanted(db, ids);
      for (const id of ids) if (!wanted.has(id)) running.get(id)?.abort.abort();
    },
    stopAll: () => {
      isEnding = true;
      for (const { abort } of running.values()) abort.abort();
    },
    idle: async () => {
      await Promise.all([...running.values()].map(({ work }) => work));
    },
  };
}

function refuseTooMany(running: readonly Running[], accountId: string): void {
  if (running.length >= RUNNING_MAX)
    throw new Fault("overloaded", "too many background responses", {
      retryAfterSeconds: RETRY_SECONDS,
    });
  const own = running.filter((one) => one.accountId === accountId).length;
  if (own >= RUNNING_PER_ACCOUNT_MAX)
    throw new Fault("rate_limited", "too many background responses of one account", {
      message: `This account has ${own} background responses in progress, which is its limit. Wait for one to end.`,
      retryAfterSeconds: RETRY_SECONDS,
    });
}

// The terminal event comes when the call is settled and its record written, so the end of the stream is the end of all.
async function readToEnd({ body }: Response, signal: AbortSignal): Promise<void> {
  if (body === null) return;
  const reader = body.getReader();
  const leave = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", leave);
  try {
    if (signal.aborted) leave();
    for (let done = false; !done;) ({ done } = await reader.read());
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

const FAILED = "The model's provider failed. Create the response again, or use another model.";

async function failUnended(
  tx: Tx,
  turn: Turn,
  accountId: string,
  failure: Json | undefined,
): Promise<void> {
  const { message } = failure ?? {};
  const error = {
    code: "server_error",
    message: typeof message === "string" ? message : FAILED,
  };
  const response = turn.seal(
    "response",
    JSON.stringify({ ...headOf(turn), status: "failed", error }),
  );
  await stopResponse(tx, { id: turn.id, accountId, status: "failed" }, response);
}

/** What a response repeats of its request, and what it says where nothing was asked. */
const ECHOED: Json = {
  frequency_penalty: 0,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  presence_penalty: 0,
  prompt_cache_key: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: "default",
  temperature: 1,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: "disabled",
};

function headOf({ id, json, createdAt, previousId }: Turn): Json {
  const asked = Object.entries(ECHOED).map(([name, usual]) => {
    const said = json[name] ?? usual;
    return [name, isObject(said) && isObject(usual) ? { ...usual, ...said } : said];
  });
  return {
    id,
    object: "response",
    created_at: Math.floor(createdAt / 1_000),
    status: "in_progress",
    background: true,
    completed_at: null,
    error: null,
    incomplete_details: null,
    model: json["model"],
    output: [],
    previous_response_id: previousId ?? null,
    store: true,
    usage: null,
    ...Object.fromEntries(asked),
  };
}
