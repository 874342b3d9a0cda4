// Runs the cases of the money fuzzer against a gateway, and checks after each what the account paid for what the provider
// bills.

import { adjust } from "../../../src/ledger/payments/adjustments.ts";
import type { Db } from "../../../src/store/db.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { PATHS, usageRecordsOf } from "../../inference/support/harness.ts";
import { openSocketClient } from "../../inference/support/socket-client.ts";
import { eventually } from "../../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { inputTokensOf, type MoneyCase, moneyCase, reportedTokens } from "./money-cases.ts";
import {
  type Bill,
  type MoneyProvider,
  type RunningCase,
  startMoneyProvider,
} from "./money-provider.ts";

export interface MoneyFuzzOptions {
  readonly seed: number;
  readonly cases: number;
  readonly from?: number;
  readonly store?: "sqlite" | "postgres";
  readonly onProgress?: (done: number) => void;
}

export interface MoneyFuzzResult {
  readonly failures: readonly string[];
  /** How often each behavior of the provider ended in which status and with a debt. */
  readonly outcomes: Readonly<Record<string, number>>;
}

const WORKERS = 24;
/** Cases that wait for a silent provider, beside the others. */
const WAITING_MAX = 200;
const CASES_PER_VERIFICATION = 1_000;
/** Longer than a busy machine delays a part of a reply: a call whose usage is not awaited costs its hold. */
const SILENCE_MS = 10_000;
/** Longer than a flood takes on a busy machine. */
const REPLY_MS = 30_000;
const LEAST_SHARE = 0.97;
/** A cost is rounded up once, a stated cost once more. */
const ROUNDING_NANO = 3;

export async function runMoneyFuzz(options: MoneyFuzzOptions): Promise<MoneyFuzzResult> {
  const { seed, cases, from = 0, store = "sqlite", onProgress } = options;
  const provider = await startMoneyProvider();
  const gateway = await startMoneyGateway(provider, store);
  const failures: string[] = [];
  const outcomes: Record<string, number> = {};
  let next = from;
  let done = 0;
  const waiting = new Set<Promise<void>>();
  const run = async (plan: MoneyCase): Promise<void> => {
    try {
      const outcome = await runCase({ gateway, provider }, plan);
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    } catch (error) {
      failures.push(
        `${error instanceof Error ? error.message : String(error)}\n  ${JSON.stringify(plan)}\n  npm run fuzz -- money 1 ${seed} ${plan.index} ${store}`,
      );
    }
    done += 1;
    if (done % CASES_PER_VERIFICATION !== 0) return;
    failures.push(...(await verifyLedger(gateway.server.db)).problems);
    onProgress?.(done);
  };
  const work = async (): Promise<void> => {
    while (next < from + cases) {
      const plan = moneyCase(seed, next++);
      const running = run(plan);
      if (plan.provider !== "falls_silent" || waiting.size >= WAITING_MAX) await running;
      else waiting.add(running.finally(() => waiting.delete(running)));
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  await Promise.all(waiting);
  failures.push(...(await verifyLedger(gateway.server.db)).problems);
  await gateway.stop();
  await provider.stop();
  return { failures, outcomes };
}

function startMoneyGateway({ url }: MoneyProvider, store: "sqlite" | "postgres"): Promise<Gateway> {
  const key = "test-key-0123456789";
  return startGateway({
    store,
    providers: [],
    logLevel: "warn",
    abandonedCallsPerMinute: 1_000_000,
    timeouts: { idleMs: SILENCE_MS, replyMs: REPLY_MS, drainMs: REPLY_MS },
    env: {
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: key,
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: key,
      OPENROUTER_BASE_URL: `${url}/v1`,
      OPENROUTER_API_KEY: key,
      POSTERN_ACCOUNTS_PER_HOUR: "0",
      POSTERN_OPEN_CALLS_PER_KEY: "0",
      POSTERN_REQUESTS_PER_MINUTE: "0",
    },
  });
}

interface Target {
  readonly gateway: Gateway;
  readonly provider: MoneyProvider;
}

/** Returns what happened, for the statistics; throws if money is wrong. */
async function runCase({ gateway, provider }: Target, plan: MoneyCase): Promise<string> {
  const { db } = gateway.server;
  const account = await openAccount(gateway, plan);
  const run: RunningCase = {
    plan,
    bills: [],
    reached: Promise.withResolvers(),
    left: Promise.withResolvers(),
    open: 0,
  };
  provider.running.set(plan.index, run);
  const before = await walletOf(db, account.id);
  const status = await call(gateway, account, run);
  // A repetition gets the reply of the first call, or runs if that failed.
  if (plan.caller === "repeats" && status !== 402) await call(gateway, account, run);
  await eventually(async () => run.open === 0 && (await walletOf(db, account.id)).held === 0, {
    timeoutMs: 120_000,
  });
  provider.running.delete(plan.index);
  const after = await walletOf(db, account.id);
  const paid = before.balance - after.balance + after.owed;
  await checkRecords(db, account, paid);
  if (after.balance < 0) throw new Error(`the balance is ${after.balance}`);
  checkPaid(run, paid);
  return `${plan.provider} ${status}${after.owed > 0 ? " debt" : ""}`;
}

async function openAccount(gateway: Gateway, plan: MoneyCase): Promise<TestAccount> {
  const account = await registerAccount(gateway);
  const { db } = gateway.server;
  const amount = BigInt(plan.balanceNano) - 50_000_000n;
  // Failures of calls from promotional credit open no circuit for the other cases.
  const bucket = plan.hasPaidCredit ? "paid" : "promo";
  await db.write(async (tx) => {
    if (amount !== 0n)
      await adjust(tx, {
        id: `fuzz.${account.id}`,
        accountId: account.id,
        amount,
        ...(amount > 0n && { bucket }),
        reason: "fuzz",
        now: Date.now(),
      });
    if (plan.keyLimitNano !== undefined)
      await tx.run("update api_key set limit_nano = ? where account_id = ?", [
        plan.keyLimitNano,
        account.id,
      ]);
  });
  return account;
}

async function call(gateway: Gateway, account: TestAccount, run: RunningCase): Promise<number> {
  const { plan } = run;
  const headers = { ...account.headers, "idempotency-key": `money-${plan.index}` };
  if (plan.caller === "leaves") {
    const client = openSocketClient(gateway, { ...account, headers }, pathOf(plan), bodyOf(plan));
    // The call may also be refused, before it gets to the provider.
    const refused = client
      .waitForText("\r\n")
      .then(() => (client.text().startsWith("HTTP/1.1 200") ? run.reached.promise : undefined));
    await Promise.race([run.reached.promise, refused]);
    client.disconnect();
    await client.closed;
    run.left.resolve();
    return 0;
  }
  const response = await fetch(gateway.url + pathOf(plan), {
    method: "POST",
    headers,
    body: JSON.stringify(bodyOf(plan)),
  });
  // The reply is read only when the provider has sent its first part.
  if (plan.caller === "stalls" && response.ok) await run.reached.promise;
  // A stream that the gateway ends without its last event is closed.
  await response.text().catch(() => {});
  return response.status;
}

function pathOf({ api, price, stream }: MoneyCase): `/${string}` {
  if (api !== "gemini") return PATHS[api];
  const operation = stream ? "streamGenerateContent?alt=sse" : "generateContent";
  return `/v1beta/models/${price.model}:${operation}`;
}

function bodyOf(plan: MoneyCase): Record<string, unknown> {
  const { api, price, stream, promptWords, outputMax, hasTools, index } = plan;
  const text = `case-${index}- ${"word ".repeat(promptWords)}`;
  if (api === "gemini")
    return {
      contents: [{ role: "user", parts: [{ text }] }],
      ...(outputMax === undefined ? {} : { generationConfig: { maxOutputTokens: outputMax } }),
    };
  const limit = api === "responses" ? "max_output_tokens" : "max_tokens";
  const tools = [{ type: "mcp", server_label: "m", server_url: "https://mcp.test" }];
  return {
    model: price.model,
    ...(api === "responses"
      ? { input: text, store: false }
      : { messages: [{ role: "user", content: text }] }),
    ...(outputMax === undefined ? {} : { [limit]: outputMax }),
    ...(stream ? { stream } : {}),
    ...(hasTools ? { tools } : {}),
  };
}

interface FuzzWallet {
  readonly balance: number;
  readonly held: number;
  readonly owed: number;
}

async function walletOf(db: Db, accountId: string): Promise<FuzzWallet> {
  const row = await db.get(
    "select promo + paid as balance, held, owed from wallet where account_id = ?",
    [accountId],
  );
  return {
    balance: Number(row?.["balance"]),
    held: Number(row?.["held"]),
    owed: Number(row?.["owed"]),
  };
}

/** The usage records say what was charged and what is owed. */
async function checkRecords(db: Db, { id }: TestAccount, paid: number): Promise<void> {
  const records = await usageRecordsOf(db, id);
  const cost = records.reduce((sum, row) => sum + Number(row["cost_nano"]), 0);
  if (cost !== paid)
    throw new Error(`the records cost ${cost}, and ${paid} was charged or is owed`);
}

function checkPaid(run: RunningCase, paid: number): void {
  const { plan, bills } = run;
  const most = bills.reduce((sum, bill) => sum + mostOf(plan, bill), 0);
  const due = bills.reduce((sum, bill) => sum + LEAST_SHARE * leastOf(plan, bill), 0);
  if (paid > most) throw new Error(`${paid} was paid for calls of at most ${most}`);
  if (paid < due) throw new Error(`${paid} was paid, and at least ${due} must be`);
}

function isCountedOf({ caller }: MoneyCase, { isReported }: Bill): boolean {
  // The gateway may have hung up before the usage arrived.
  return !isReported || caller === "leaves";
}

/** What the caller pays at most for a request: its list price, or where nothing tells what the provider bills, its hold. */
function mostOf(plan: MoneyCase, bill: Bill): number {
  const { price, provider, stream, hasTools } = plan;
  const slack = ROUNDING_NANO + (isCountedOf(plan, bill) ? countingSlack(plan) : 0);
  const whole = wholePrice(plan, bill) + slack;
  const isUnknown =
    (provider === "lies" && (hasTools || reportedTokens(plan) !== undefined)) ||
    (provider === "falls_silent" && (hasTools || !stream || !price.isCounted)) ||
    (provider === "reports_nothing" && hasTools);
  return isUnknown ? Math.max(whole, holdBound(plan)) : whole;
}

/** A hold covers a token for each byte of the request and the output limit, within the funds. */
function holdBound(plan: MoneyCase): number {
  const { price, hasTools, outputMax = price.outputMax } = plan;
  const input = JSON.stringify(bodyOf(plan)).length + HOLD_INPUT_SLACK_TOKENS;
  const cost = hasTools ? Infinity : input * price.inputMostNano + outputMax * price.output;
  return Math.min(cost, fundsOf(plan));
}

function fundsOf({ balanceNano, keyLimitNano = Infinity }: MoneyCase): number {
  return Math.min(balanceNano, keyLimitNano);
}

/** What a hold may include for what a provider adds to a request. */
const HOLD_INPUT_SLACK_TOKENS = 1_000;

/** What counting instead of the provider may differ by: the framing of a message, its tools, and the ends of the text. */
function countingSlack({ price, hasTools }: MoneyCase): number {
  const framing = hasTools ? 500 : price.isCounted ? 20 : 120;
  return framing * price.input + 4 * price.output;
}

function leastOf(plan: MoneyCase, bill: Bill): number {
  const slack = ROUNDING_NANO + (isCountedOf(plan, bill) ? countingSlack(plan) : 0);
  return Math.max(0, billed(plan, bill) - slack);
}

/** What the provider bills, as far as it can be known. It bills nothing for a failure of its own. */
function billed(plan: MoneyCase, bill: Bill): number {
  const { provider, price, statedUsd } = plan;
  if (bill.isFailed) return 0;
  // Without a first byte, nothing says that the provider works at all.
  if (provider === "falls_silent" && bill.outputTokens === 0) return 0;
  if (provider === "states_cost" && bill.isReported && statedUsd > 0) return statedUsd * 1e9;
  const cost = bill.inputTokens * price.input + bill.outputTokens * price.output;
  const reported = provider === "lies" ? reportedTokens(plan) : undefined;
  if (reported === undefined) return cost;
  // What is beyond all that is possible is charged at the hold, which the funds limit.
  return Math.min(reported * (price.input + price.output), cost, fundsOf(plan));
}

/** The price of the whole call, as if everything had been produced. */
function wholePrice(plan: MoneyCase, bill: Bill): number {
  const { price, chunks, tokensPerChunk } = plan;
  const list = inputTokensOf(plan) * price.input + chunks * tokensPerChunk * price.output;
  return plan.provider === "states_cost"
    ? Math.max(list, plan.statedUsd * 1e9)
    : Math.max(list, billed(plan, bill));
}
