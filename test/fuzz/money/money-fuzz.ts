// Runs the cases of the money fuzzer against a gateway, and checks after each what the account paid for what the provider
// bills.

import { adjust } from "../../../src/ledger/payments/adjustments.ts";
import type { Db } from "../../../src/store/db.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { PATHS, usageRecordsOf } from "../../inference/support/harness.ts";
import { eventually } from "../../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { inputTokensOf, type MoneyCase, moneyCase } from "./money-cases.ts";
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

/** Cases that wait for a silent provider overlap. */
const WORKERS = 24;
const CASES_PER_VERIFICATION = 1_000;
/** Longer than a busy machine delays a part of a reply: a call whose usage is not awaited costs its hold. */
const SILENCE_MS = 3_000;
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
  const work = async (): Promise<void> => {
    while (next < from + cases) {
      const index = next++;
      const plan = moneyCase(seed, index);
      try {
        const outcome = await runCase({ gateway, provider }, plan);
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      } catch (error) {
        failures.push(
          `${error instanceof Error ? error.message : String(error)}\n  ${JSON.stringify(plan)}\n  npm run fuzz -- money 1 ${seed} ${index}`,
        );
      }
      done += 1;
      if (done % CASES_PER_VERIFICATION === 0) {
        failures.push(...(await verifyLedger(gateway.server.db)).problems);
        onProgress?.(done);
      }
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
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
    timeouts: { idleMs: SILENCE_MS, replyMs: SILENCE_MS * 2, drainMs: SILENCE_MS * 2 },
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
    timeoutMs: 30_000,
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
  await db.write(async (tx) => {
    if (amount !== 0n)
      await adjust(tx, {
        id: `fuzz.${account.id}`,
        accountId: account.id,
        amount,
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
  const leaving = new AbortController();
  const request = fetch(gateway.url + PATHS[plan.api], {
    method: "POST",
    headers: { ...account.headers, "idempotency-key": `money-${plan.index}` },
    body: JSON.stringify(bodyOf(plan)),
    signal: leaving.signal,
  });
  if (plan.caller === "leaves") {
    // The call may also be refused, before it gets to the provider.
    const refused = request.then(
      ({ ok }) => (ok ? run.reached.promise : undefined),
      () => undefined,
    );
    await Promise.race([run.reached.promise, refused]);
    leaving.abort();
    run.left.resolve();
    await request.then((response) => response.text()).catch(() => {});
    return 0;
  }
  const response = await request;
  // The reply is read only when the provider has sent its first part.
  if (plan.caller === "stalls" && response.ok) await run.reached.promise;
  // A stream that the gateway ends without its last event is closed.
  await response.text().catch(() => {});
  return response.status;
}

function bodyOf(plan: MoneyCase): Record<string, unknown> {
  const { api, price, stream, promptWords, outputMax, hasTools, index } = plan;
  const text = `case-${index}- ${"abc ".repeat(promptWords)}`;
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
  const whole = bills.reduce((sum, bill) => sum + wholePrice(plan, bill), 0);
  const due = bills.reduce((sum, bill) => sum + billed(plan, bill), 0);
  // The gateway may have hung up before the usage arrived.
  const unreported = bills.filter(
    ({ isReported }) => !isReported || plan.caller === "leaves",
  ).length;
  const slack = ROUNDING_NANO * bills.length + unreported * countingSlack(plan);
  const most = unreported === 0 ? whole : whole * plan.price.countingFactor;
  if (!UNBOUNDED.has(plan.provider) && paid > most + slack)
    throw new Error(`${paid} was paid for calls of at most ${whole}`);
  if (paid < LEAST_SHARE * due - slack)
    throw new Error(`${paid} was paid, and the provider bills ${due}`);
}

/** A lie is charged at the hold at most, and so is an abandoned call that the provider may still bill. */
const UNBOUNDED: ReadonlySet<string> = new Set(["lies", "falls_silent"]);

/** What counting instead of the provider may differ by: the framing of a message, its tools, and the ends of the text. */
function countingSlack({ price, hasTools }: MoneyCase): number {
  return (hasTools ? 500 : 20) * price.input + 4 * price.output;
}

/** What the provider bills. It bills nothing for a failure of its own. */
function billed(plan: MoneyCase, bill: Bill): number {
  if (bill.isFailed || plan.provider === "lies") return 0;
  // Without a first byte, nothing says that the provider works at all.
  if (plan.provider === "falls_silent" && bill.outputTokens === 0) return 0;
  if (plan.provider === "states_cost" && bill.isReported && plan.statedUsd > 0)
    return plan.statedUsd * 1e9;
  return bill.inputTokens * plan.price.input + bill.outputTokens * plan.price.output;
}

/** The price of the whole call, as if everything had been produced. */
function wholePrice(plan: MoneyCase, bill: Bill): number {
  const { price, chunks, tokensPerChunk } = plan;
  const list = inputTokensOf(plan) * price.input + chunks * tokensPerChunk * price.output;
  return plan.provider === "states_cost"
    ? Math.max(list, plan.statedUsd * 1e9)
    : Math.max(list, billed(plan, bill));
}
