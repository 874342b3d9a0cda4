// Routes of /v1/accounts and /v1/account.

import { z } from "zod";
import { ACCOUNT_EXAMPLE, AccountRecord, toAccountRecord } from "../accounts/account-record.ts";
import {
  createAccount,
  getAccount,
  recordAccountCreated,
  renameAccount,
  setDataPolicy,
  setReceipts,
} from "../accounts/accounts.ts";
import { BudgetsRecord, toBudgetsRecord } from "../accounts/budget-record.ts";
import {
  admitCreation,
  admitVerifiedAgent,
  type CreationLimits,
} from "../accounts/creation-limits.ts";
import { listAllMembers, ROLES } from "../accounts/members.ts";
import { PROOF_HEADER_DOC, type ProofOfWork } from "../accounts/proof-of-work.ts";
import type { VerifiedAgent, VerifyAgent } from "../accounts/verified-agent.ts";
import { keyAct } from "../activity/audit.ts";
import { invalid, type NextStep } from "../base/fault.ts";
import {
  creditsOf,
  type Nano,
  type Pico,
  usdNumber,
  usdOf,
  usdTextOfPico,
} from "../base/money/money.ts";
import { fundingSteps } from "../base/purchase-steps.ts";
import { requireAllowedEmail } from "../controls/blocks.ts";
import { requireLocalOrigin } from "../http/guards/dev-cors.ts";
import { networksOf } from "../http/request/client-ip.ts";
import {
  keyRoute,
  keyWriteRoute,
  oneResponse,
  publicWriteRoute,
  type Route,
  type RouteResponse,
} from "../http/route.ts";
import { NextStepSchema, timestamp } from "../http/schemas.ts";
import {
  NewCredential,
  type ProvePublicKey,
  type SignedBody,
  toCredentialSettings,
} from "../keys/key-credential.ts";
import { KEY_EXAMPLE, KeyRecord, toKeyRecord } from "../keys/key-record.ts";
import { getKey, type Keys } from "../keys/keys.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { getWallet } from "../ledger/ledger.ts";
import { getBudgets } from "../ledger/wallet-budgets.ts";
import { changePromptRetention } from "../prompt-log/prompt-log.ts";
import type { Db, Tx } from "../store/db.ts";
import { openRouterRoutes } from "./openrouter-routes.ts";

const EMAIL_MAX = 254;

const BalanceRecord = z
  .object({
    credits: z.int().meta({
      description: "The balance with what is held. One credit is $0.000001.",
    }),
    usd: z.number(),
    held_credits: z.int().meta({
      description: "Held by running calls, and reserved for the next calls of a busy key.",
    }),
  })
  .meta({ id: "Balance" });

const NewAccount = z
  .strictObject({
    // Of the auth.md protocol: there is one kind of account and of credential.
    type: z.literal("anonymous").optional().meta({
      description: "As in the auth.md protocol.",
    }),
    requested_credential_type: z.literal("api_key").optional().meta({
      description: "As in the auth.md protocol.",
    }),
    email: z
      .email("must be an email address; omit it if the user gave none")
      .max(EMAIL_MAX)
      .optional()
      .meta({
        description: "Set it only if the user gave an email address for the account.",
      }),
    credential: NewCredential.optional().meta({
      description: "See `/docs/keys-without-secrets`.",
    }),
  })
  .meta({ id: "NewAccountRequest" });

const FirstCall = z.object({
  method: z.literal("POST"),
  url: z.literal("/v1/chat/completions"),
  body: z.looseObject({ model: z.string(), max_tokens: z.int() }),
  cost_usd_max: z.string(),
});

const FIRST_CALL = { max_tokens: 100, messages: [{ role: "user", content: "Say hello." }] };
/** Far above what any tokenizer makes of the message, with its frame. */
const FIRST_CALL_INPUT_TOKENS = 50;
const FIRST_CALL_EXAMPLE = {
  method: "POST",
  url: "/v1/chat/completions",
  body: { model: "sim/echo", ...FIRST_CALL },
  cost_usd_max: "0.00025",
};

function firstCall(model: PricedModel | undefined): z.infer<typeof FirstCall> | undefined {
  if (model === undefined) return undefined;
  const { id, input, output } = model;
  const cost = input * BigInt(FIRST_CALL_INPUT_TOKENS) + output * BigInt(FIRST_CALL.max_tokens);
  return {
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: id, ...FIRST_CALL },
    cost_usd_max: usdTextOfPico(cost),
  };
}

const SIGNATURE_HEADERS_DOC = {
  "signature-input":
    "Web Bot Auth (RFC 9421, tag `web-bot-auth`), if your operator is listed by this gateway: the quota and the starting credit of your operator apply, and not those of your network. Sent with `signature` and `signature-agent`.",
} as const;

/** Pico-USD per token. */
interface PricedModel {
  readonly id: string;
  readonly input: Pico;
  readonly output: Pico;
}

export interface AccountRouteDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly limits: CreationLimits;
  /** Required of each new account, if it is on. */
  readonly proofOfWork?: ProofOfWork | undefined;
  /** Verifies the signatures of agents that the settings list. */
  readonly verifyAgent?: VerifyAgent | undefined;
  readonly provePublicKey: ProvePublicKey;
  /** How an account without starting credit can be funded. */
  readonly fundingSteps: readonly NextStep[];
  /** Undefined if no human can sign in. */
  readonly claimStep: NextStep | undefined;
  readonly cheapestModel: (now: number) => PricedModel | undefined;
  /** Called once for each warning threshold of the day's starting credit. */
  readonly onGrantBudgetReached?: (percent: number) => void;
  /** In development mode, where creations are not limited: rejects requests of pages from other origins. */
  readonly requiresSameOrigin?: boolean;
}

export function accountRoutes(deps: AccountRouteDeps): readonly Route[] {
  return [createRoute(deps), readRoute(deps), changeRoute(deps), ...openRouterRoutes(deps.db)];
}

function createRoute(deps: AccountRouteDeps): Route {
  return publicWriteRoute({
    method: "POST",
    path: "/v1/accounts",
    id: "createAccount",
    revealsSecret: true,
    tag: "Accounts",
    summary: "Create a funded account and its first key",
    description:
      "Requires no authentication. The raw key is only returned in this response: store it first. With a random `Idempotency-Key` (128 bits), the same request from the same address returns the same response for ten minutes. If the gateway has used up its starting credit for the day, the balance is 0 and `next` lists how to fund the account.",
    dialect: "openai",
    body: NewAccount,
    requestExample: {},
    responses: oneResponse(
      "The account, its first key and its starting balance.",
      z
        .object({
          account: AccountRecord,
          api_key: z.string().nullable().meta({
            description: "The raw key, shown only once; null with a `credential`.",
          }),
          balance: BalanceRecord,
          first_call: FirstCall.optional().meta({
            description:
              "A call that works now, of the cheapest model, and the most that it costs.",
          }),
          claim: z
            .object({ start: NextStepSchema })
            .optional()
            .meta({ description: "How a human can claim the account; the key keeps working." }),
          next: z
            .array(NextStepSchema)
            .optional()
            .meta({
              description:
                "Only if the balance is 0, because today's starting credit is used up: how to fund the account.",
              examples: [
                fundingSteps(
                  { hasPage: true, acceptsX402: false, acceptsMpp: false, minUsd: 1 },
                  { isSignInDisabled: false },
                ),
              ],
            }),
        })
        .meta({ id: "NewAccount" }),
      {
        account: ACCOUNT_EXAMPLE,
        api_key: "pst-rt-8Kd0aQm3VtR5xWc7ZbN1LfJ9HgS4PyE6UoTiA2KdM8q0hXy2b",
        balance: { credits: 50_000, usd: 0.05, held_credits: 0 },
        first_call: FIRST_CALL_EXAMPLE,
        ...(deps.claimStep === undefined ? {} : { claim: { start: deps.claimStep } }),
      },
      201,
    ),
    faults: ["rate_limited", "conflict", "forbidden", "proof_of_work_required", "overloaded"],
    requestHeaders: { ...PROOF_HEADER_DOC, ...SIGNATURE_HEADERS_DOC },
    // Verified before the transaction, because the keys of the agent's operator may have to be fetched.
    before: async ({ headers, request, now }) => {
      if (deps.requiresSameOrigin === true) requireLocalOrigin(headers);
      const signed = { method: request.method, path: "/v1/accounts", headers };
      return deps.verifyAgent?.(signed, now);
    },
    run: (tx, input, agent) => openNewAccount(tx, deps, input, agent),
  });
}

interface CreationInput extends SignedBody {
  readonly body: z.infer<typeof NewAccount>;
  readonly clientIp: string;
}

async function openNewAccount(
  tx: Tx,
  deps: AccountRouteDeps,
  input: CreationInput,
  agent: VerifiedAgent | undefined,
): Promise<RouteResponse> {
  const { body, clientIp, headers, now } = input;
  const credential = body.credential && toCredentialSettings(body.credential);
  if (credential?.type === "oidc")
    throw invalid(
      "credential.type",
      "A new account has a secret or a `public_key`. Create a key with an issuer by POST /v1/keys.",
    );
  if (credential !== undefined) await deps.provePublicKey(tx, input, credential.x);
  if (agent === undefined) await deps.proofOfWork?.require(tx, { headers, clientIp, now });
  const { startingCredit, reachedPercents } =
    agent === undefined
      ? await admitCreation(tx, { clientIp, now }, deps.limits)
      : await admitVerifiedAgent(tx, agent, now);
  const [network] = networksOf(clientIp);
  const email = body.email ?? null;
  if (email !== null) await requireAllowedEmail(tx, email);
  const verifiedAgent = agent?.url;
  const request = { email, network, verifiedAgent, startingCredit, now };
  const account = await createAccount(tx, request);
  const act = { accountId: account.id, actor: undefined, network: networksOf(clientIp)[1], now };
  const { key, raw } = await deps.keys.create(tx, act, { credential });
  await recordAccountCreated(tx, account, { ...act, actor: { type: "key", id: key.id } });
  const wallet = await getWallet(tx, account.id);
  return {
    status: 201,
    body: {
      account: toAccountRecord(account),
      api_key: credential === undefined ? raw : null,
      balance: toBalanceRecord(wallet),
      first_call: startingCredit === 0n ? undefined : firstCall(deps.cheapestModel(now)),
      claim: deps.claimStep && { start: deps.claimStep },
      ...(startingCredit === 0n ? { next: deps.fundingSteps } : {}),
    },
    afterCommit: () => {
      for (const percent of reachedPercents) deps.onGrantBudgetReached?.(percent);
    },
  };
}

const AccountState = z
  .object({
    account: AccountRecord,
    balance: BalanceRecord,
    owed_usd: z.number().meta({
      description:
        "Debt: the cost of calls beyond the credits, and of a disputed payment whose credits were already spent. While it is above zero, calls that cost credits fail with `402 insufficient_credits`. New credits pay the debt first.",
    }),
    frozen: z.object({ since: z.string(), reason: z.string() }).nullable().meta({
      description:
        "Set while the gateway's operator has frozen the account: model calls fail with `403 workspace_frozen`, and everything can still be read.",
    }),
    closing: z.object({ since: z.string() }).nullable().meta({
      description:
        "Set while the account is closing: model calls and purchases fail with `403 workspace_frozen`. It can be reopened for 14 days.",
    }),
    budgets: BudgetsRecord,
    key: KeyRecord,
    members: z.array(z.object({ email: z.string(), role: z.enum(ROLES) })),
  })
  .meta({ id: "AccountState" });

/** As of a new account. */
const NO_BUDGET = { limit_usd: null, used_usd: 0, held_usd: 0, remaining_usd: null };
const NO_BUDGETS_EXAMPLE = {
  object: "budgets",
  daily: { ...NO_BUDGET, resets_at: "2026-11-22T00:00:00.000Z" },
  monthly: { ...NO_BUDGET, resets_at: "2026-12-01T00:00:00.000Z" },
};
const FIRST_KEY_EXAMPLE = {
  ...KEY_EXAMPLE,
  name: null,
  limit_usd: null,
  limit_window: null,
  allowed_models: null,
  requests_per_minute: null,
  alert_percents: null,
};

function readRoute(deps: AccountRouteDeps): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/account",
    id: "getAccount",
    scope: "usage:read",
    tag: "Accounts",
    summary: "Get the account with its balance, budgets and key",
    dialect: "openai",
    responses: oneResponse("The account of the key.", AccountState, {
      account: ACCOUNT_EXAMPLE,
      balance: { credits: 50_000, usd: 0.05, held_credits: 0 },
      owed_usd: 0,
      frozen: null,
      closing: null,
      budgets: NO_BUDGETS_EXAMPLE,
      key: FIRST_KEY_EXAMPLE,
      members: [],
    }),
    faults: [],
    run: async ({ caller, now }) => {
      const [account, wallet, freeze, budgets, key, members] = await Promise.all([
        getAccount(deps.db, caller.accountId),
        getWallet(deps.db, caller.accountId),
        findFreeze(deps.db, caller.accountId),
        getBudgets(deps.db, caller.accountId, now),
        getKey(deps.db, caller.accountId, caller.keyId, now),
        listAllMembers(deps.db, caller.accountId),
      ]);
      return {
        status: 200,
        body: {
          account: toAccountRecord(account),
          balance: toBalanceRecord(wallet),
          owed_usd: usdNumber(wallet.owed ?? 0n),
          frozen:
            freeze?.by === "operator"
              ? { since: timestamp(freeze.since), reason: freeze.reason }
              : null,
          closing: freeze?.by === "closing" ? { since: timestamp(freeze.since) } : null,
          budgets: toBudgetsRecord(budgets),
          key: toKeyRecord(key),
          members: members.map(({ email, role }) => ({ email, role })),
        },
      };
    },
  });
}

function changeRoute({ keys: { forgetLookUps: onChanged } }: AccountRouteDeps): Route {
  return keyWriteRoute({
    method: "PATCH",
    path: "/v1/account",
    id: "changeAccountSettings",
    scope: "account:write",
    tag: "Accounts",
    summary: "Change the account's name, data policy, receipts or retention of prompts",
    description:
      "The name is shown to people in the console, on claim pages and in emails. It does not have to be unique. Only the fields in the request are changed.",
    dialect: "openai",
    body: z
      .strictObject({
        name: z.string().nullable().optional().meta({
          description: "One line of at most 80 characters; null or empty to remove the name.",
        }),
        receipts: z.boolean().optional().meta({
          description:
            "true: every call gets a [signed receipt](/docs/quotes-and-receipts), as with `x-postern-receipt: 1`.",
        }),
        data_policy: z.string().max(60).nullable().optional().meta({
          description:
            "What [providers may do](/docs/data-policy) with the data of all calls: `zdr`, `deny`, `region=us`, separated by commas; null for no rules.",
        }),
        prompt_retention_days: z.int().nullable().optional().meta({
          description:
            "Days until [logged prompts](/docs/prompt-logging) are deleted, from 1; null for the gateway's setting, which is the most.",
        }),
      })
      .meta({ id: "AccountChange" }),
    requestExample: { name: "Acme production" },
    responses: oneResponse("The account.", AccountRecord, {
      ...ACCOUNT_EXAMPLE,
      name: "Acme production",
    }),
    faults: [],
    run: async (tx, { caller, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const { name, receipts, prompt_retention_days: days, data_policy: policy } = body;
      if (name !== undefined) await renameAccount(tx, act, name ?? "");
      if (receipts !== undefined) await setReceipts(tx, act, receipts);
      if (days !== undefined) await changePromptRetention(tx, act, days);
      if (policy !== undefined) await setDataPolicy(tx, act, policy);
      const account = await getAccount(tx, caller.accountId);
      return { status: 200, body: toAccountRecord(account), afterCommit: onChanged };
    },
  });
}

function toBalanceRecord(wallet: {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
}): z.infer<typeof BalanceRecord> {
  const posted = wallet.promo + wallet.paid;
  return { credits: creditsOf(posted), usd: usdOf(posted), held_credits: creditsOf(wallet.held) };
}
