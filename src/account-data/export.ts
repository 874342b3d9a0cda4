// The export of an account: all its records, one JSON object per line, read page by page while it is sent.

import { toAccountRecord } from "../accounts/account-record.ts";
import { getAccount } from "../accounts/accounts.ts";
import { toBudgetsRecord } from "../accounts/budget-record.ts";
import { listInvitations } from "../accounts/invitations.ts";
import { listMembers, memberCursor } from "../accounts/members.ts";
import { toAuditEntryRecord } from "../activity/audit-record.ts";
import { listAuditEntries } from "../activity/audit.ts";
import { toEventRecord } from "../activity/event-record.ts";
import { listEvents } from "../activity/events.ts";
import { listWebhooks } from "../activity/webhook-rows.ts";
import { toSessionRecord } from "../agent-sessions/agent-session-record.ts";
import { parseSessionCursor, sessionCursor } from "../agent-sessions/agent-sessions-routes.ts";
import { readSessionPage } from "../agent-sessions/agent-sessions.ts";
import { usdText } from "../base/money/money.ts";
import type { PageRequest } from "../base/pagination.ts";
import { type InvoiceLinks, toInvoiceRecord } from "../billing/invoices/invoice-record.ts";
import { listInvoices } from "../billing/invoices/invoices.ts";
import { toGuardrailRecord } from "../guardrails/guardrail-record.ts";
import { listGuardrails } from "../guardrails/guardrails.ts";
import { timestamp } from "../http/schemas.ts";
import { toKeyRecord } from "../keys/key-record.ts";
import { listKeys } from "../keys/keys.ts";
import { getWallet } from "../ledger/ledger.ts";
import { listTransfers } from "../ledger/transfers.ts";
import { getBudgets } from "../ledger/wallet-budgets.ts";
import { toMcpServerRecord } from "../mcp-servers/mcp-servers-routes.ts";
import { listMcpServers } from "../mcp-servers/mcp-servers.ts";
import { toPresetRecord } from "../presets/preset-record.ts";
import { listPresets } from "../presets/presets.ts";
import { toProviderKeyRecord } from "../provider-keys/provider-key-record.ts";
import { listProviderKeys } from "../provider-keys/provider-keys.ts";
import { toSinkRecord } from "../sinks/sink-record.ts";
import { listSinks } from "../sinks/sink-rows.ts";
import { countQueuedCalls } from "../sinks/sinks.ts";
import type { Reader } from "../store/db.ts";
import { listUsage } from "../usage/usage-list.ts";
import { toUsageRecord } from "../usage/usage-record.ts";
import { toWebhookRecord } from "../webhooks/webhook-record.ts";

export interface ExportContext {
  readonly db: Reader;
  readonly accountId: string;
  readonly now: number;
  readonly billing: InvoiceLinks;
  /** For tests. */
  readonly monotonicNow?: () => number;
}

/** Records of one kind; `next` is undefined after the last page. */
interface SectionPage {
  readonly records: readonly unknown[];
  readonly next: string | undefined;
}

type Section = (context: ExportContext, page: PageRequest) => Promise<SectionPage>;

/** In the order of the export. A record has the form of its endpoint. */
const SECTIONS: Readonly<Record<string, Section>> = {
  account: async (context) => onePage([await accountRecord(context)]),
  member: async ({ db, accountId }, { limit, cursor }) => {
    const members = await listMembers(db, accountId, { limit: limit + 1, from: cursor });
    const next = members[limit];
    return {
      records: members.slice(0, limit).map(({ personId, email, role, addedAt }) => ({
        id: personId,
        email,
        role,
        added_at: timestamp(addedAt),
      })),
      next: next && memberCursor(next),
    };
  },
  invitation: async ({ db, accountId, now }) =>
    onePage(
      (await listInvitations(db, accountId, now)).map(({ id, email, expiresAt }) => ({
        id,
        email,
        expires_at: timestamp(expiresAt),
      })),
    ),
  key: async ({ db, accountId, now }, page) =>
    toSection(await listKeys(db, accountId, page, now), toKeyRecord),
  provider_key: async ({ db, accountId }, page) =>
    toSection(await listProviderKeys(db, accountId, page), toProviderKeyRecord),
  webhook: async ({ db, accountId }, page) =>
    toSection(await listWebhooks(db, accountId, page), toWebhookRecord),
  preset: async ({ db, accountId }) =>
    onePage((await listPresets(db, accountId)).map(toPresetRecord)),
  guardrail: async ({ db, accountId }) =>
    onePage((await listGuardrails(db, accountId)).map(toGuardrailRecord)),
  sink: async ({ db, accountId }) => {
    const queued = await countQueuedCalls(db, accountId);
    const sinks = await listSinks(db, accountId);
    return onePage(sinks.map((sink) => toSinkRecord(sink, queued.get(sink.name) ?? 0)));
  },
  mcp_server: async ({ db, accountId }) =>
    onePage((await listMcpServers(db, accountId)).map(toMcpServerRecord)),
  invoice: async ({ db, accountId, billing }, page) =>
    toSection(await listInvoices(db, accountId, page), (invoice) =>
      toInvoiceRecord(invoice, billing),
    ),
  transfer: async ({ db, accountId }, page) => {
    const { transfers, next } = await listTransfers(db, accountId, page);
    return {
      records: transfers.map(({ id, from, to, amount, kind, ref, at, memo }) => ({
        id,
        from,
        to,
        amount_usd: usdText(amount),
        kind,
        ref,
        at: timestamp(at),
        memo,
      })),
      next,
    };
  },
  agent_session: async ({ db, accountId }, { limit, cursor }) => {
    const before = parseSessionCursor(cursor);
    const { sessions, hasMore } = await readSessionPage(db, accountId, { limit, before });
    const last = hasMore ? sessions.at(-1) : undefined;
    return {
      records: sessions.map(toSessionRecord),
      next: last && sessionCursor(last.session.createdAt, last.id),
    };
  },
  usage: async ({ db, accountId }, page) =>
    toSection(await listUsage(db, accountId, {}, page), toUsageRecord),
  event: async ({ db, accountId }, page) =>
    toSection(await listEvents(db, accountId, page), toEventRecord),
  audit_entry: async ({ db, accountId }, page) =>
    toSection(await listAuditEntries(db, accountId, page), toAuditEntryRecord),
};

export const EXPORTED_TYPES: readonly string[] = Object.keys(SECTIONS);

/** Yields the lines page by page. The last line has the number of records, so that a cut-off export is noticed. */
export async function* exportLines(context: ExportContext): AsyncGenerator<string> {
  let count = 0;
  const pace = createExportPace(context.db, context.monotonicNow);
  const paced = { ...context, db: pace.reader };
  for (const [type, section] of Object.entries(SECTIONS)) {
    pace.beginSection();
    for (let cursor: string | undefined; ;) {
      pace.beginPage();
      const { records, next } = await section(paced, { limit: pace.rows(), cursor });
      count += records.length;
      const lines = records.map((data) => `${JSON.stringify({ type, data })}\n`).join("");
      pace.endPage(next !== undefined);
      if (lines !== "") yield lines;
      await pace.pause();
      if (next === undefined) break;
      cursor = next;
    }
  }
  yield `${JSON.stringify({ type: "end", data: { records: count } })}\n`;
}

async function accountRecord({ db, accountId, now }: ExportContext): Promise<unknown> {
  const [account, { promo, paid, held, owed = 0n }, budgets] = await Promise.all([
    getAccount(db, accountId),
    getWallet(db, accountId),
    getBudgets(db, accountId, now),
  ]);
  return {
    ...toAccountRecord(account),
    exported_at: timestamp(now),
    balance: {
      promotional_usd: usdText(promo),
      purchased_usd: usdText(paid),
      held_usd: usdText(held),
      owed_usd: usdText(owed),
    },
    budgets: toBudgetsRecord(budgets),
  };
}

function onePage(records: readonly unknown[]): SectionPage {
  return { records, next: undefined };
}

function toSection<T>(
  page: { readonly data: readonly T[]; readonly next_cursor: string | null },
  toRecord: (record: T) => unknown,
): SectionPage {
  return { records: page.data.map(toRecord), next: page.next_cursor ?? undefined };
}

// Limits how long an export occupies the event loop. A page is read and written at once, so its number of rows depends on how
// long the previous page took. After it the export pauses for as long, so it takes at most half of the event loop's time.

const PAGE_TARGET_MS = 5;
/** The resolution of timers. */
const PAUSE_MIN_MS = 1;
/** Powers of two, because on PostgreSQL each number of rows is a prepared statement. */
const ROWS_MIN = 8;
const ROWS_FIRST = 32;
const ROWS_MAX = 256;

interface ExportPace {
  /** The store as the pages must read it. */
  readonly reader: Reader;
  /** Call before records of another kind, whose rows may take longer. */
  readonly beginSection: () => void;
  /** The rows of the next page. */
  readonly rows: () => number;
  readonly beginPage: () => void;
  /** Call when the page is written; `isFull` if it had as many rows as it could. */
  readonly endPage: (isFull: boolean) => void;
  /** Lets other requests run for as long as the pages since the last pause took. */
  readonly pause: () => Promise<void>;
}

function createExportPace(
  db: Reader,
  monotonicNow: () => number = () => performance.now(),
): ExportPace {
  let rows = ROWS_FIRST;
  let beganAt = 0;
  let heldMs = 0;
  const begin = (): void => {
    beganAt = monotonicNow();
  };
  return {
    reader: db.kind === "sqlite" ? db : callAfterReads(db, begin),
    beginSection: () => {
      rows = ROWS_FIRST;
    },
    rows: () => rows,
    beginPage: begin,
    endPage: (isFull) => {
      const pageMs = monotonicNow() - beganAt;
      heldMs += pageMs;
      if (pageMs > PAGE_TARGET_MS) rows = Math.max(ROWS_MIN, rows / 2);
      else if (isFull && pageMs < PAGE_TARGET_MS / 2) rows = Math.min(ROWS_MAX, rows * 2);
    },
    pause: async () => {
      if (heldMs < PAUSE_MIN_MS) return;
      const pauseMs = Math.ceil(heldMs);
      heldMs = 0;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    },
  };
}

/** Waiting for PostgreSQL does not occupy the event loop. */
function callAfterReads(db: Reader, onRead: () => void): Reader {
  const noteRead = <T>(result: T): T => {
    onRead();
    return result;
  };
  return {
    kind: db.kind,
    all: async (sql, params) => noteRead(await db.all(sql, params)),
    get: async (sql, params) => noteRead(await db.get(sql, params)),
  };
}
