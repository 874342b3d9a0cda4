// A gateway with one owner, and a new workspace for each test.

import type { Page } from "playwright-core";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { createUser, makeOwner, type TestUser } from "../billing/console-user.ts";
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

/** The fields of API responses that the tests read. */
interface ApiReply {
  readonly id: string;
  readonly status: string;
  readonly key: { readonly id: string };
  readonly data: readonly { readonly id: string }[];
  readonly claim_attempt: { readonly verification_uri_complete: string };
}

export interface Workspace {
  readonly account: TestAccount;
  /** Of its pages. */
  readonly path: string;
  /** Calls the API with the account's first key. */
  readonly api: (method: string, path: string, body?: unknown) => Promise<ApiReply>;
  /** Makes the harness's person its owner. */
  readonly claim: () => Promise<void>;
}

export interface WorkspaceHarness {
  readonly gateway: Gateway;
  readonly owner: TestUser;
  readonly newWorkspace: () => Promise<Workspace>;
}

export async function startWorkspaceHarness(): Promise<WorkspaceHarness> {
  const gateway = await startGateway();
  const owner = await createUser(gateway, "olga");
  return {
    gateway,
    owner,
    newWorkspace: async () => {
      const account = await registerAccount(gateway);
      return {
        account,
        path: `/console/${account.id}`,
        api: async (method, path, body) => {
          const { authorization = "" } = account.headers;
          const response = await fetch(
            gateway.url + path,
            body === undefined
              ? { method, headers: { authorization } }
              : { method, headers: account.headers, body: JSON.stringify(body) },
          );
          // Safe because each test reads only fields that its response has.
          return (await response.json()) as ApiReply;
        },
        claim: () => makeOwner(gateway, account.id, owner),
      };
    },
  };
}

/** Runs `steps` in a browser in which the person is signed in. */
export async function withBrowserPage(
  gateway: Gateway,
  user: TestUser,
  steps: (page: Page) => Promise<void>,
  viewport = { width: 1_280, height: 800 },
): Promise<void> {
  const browser = await sharedBrowser();
  try {
    const context = await browser.newContext({ viewport });
    const [name = "", value = ""] = user.cookie.split("=");
    await context.addCookies([{ name, value, url: gateway.url }]);
    await steps(await context.newPage());
  } finally {
    await closeWindows(browser);
  }
}

export function usageRecordOf(
  accountId: string,
  call: Pick<UsageRecord, "id" | "keyId" | "model">,
): UsageRecord {
  return {
    ...call,
    accountId,
    inputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 1,
    createdAt: Date.now(),
    provider: "sim",
    api: "chat",
    stream: false,
    outcome: "completed",
    status: 200,
    reasoningTokens: 0,
    price: [],
    attempts: [],
    cost: 1n,
    byok: false,
    exact: true,
    latencyMs: 1,
    firstTokenMs: null,
    labels: [],
  };
}
