// Email domains of a workspace. It owns the table workspace_domain. A TXT record proves that the owner controls the domain;
// it is queried again every day, so that a domain that changes hands does not stay with the workspace.

import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { randomBase62 } from "../base/crypto/secret.ts";
import { Fault, invalid } from "../base/fault.ts";
import type { ResolveTxt } from "../base/network/dns-txt.ts";
import { domainOf, parseDomain } from "../base/text/email.ts";
import { DAY_MS } from "../base/time.ts";
import { endSsoSessions } from "../people/sessions.ts";
import { type Db, integerOrNull, type Reader, type Row, text, type Tx } from "../store/db.ts";

const DOMAINS_PER_WORKSPACE_MAX = 20;
const TOKEN_CHARACTERS = 32;
const RECHECK_MS = DAY_MS;
/** A verified domain is lost when its record has been missing for this long. */
export const MISSING_GRACE_MS = 7 * DAY_MS;
const RECHECKS_PER_RUN = 50;

export interface WorkspaceDomain {
  readonly accountId: string;
  readonly domain: string;
  readonly token: string;
  readonly verifiedAt: number | null;
  readonly checkedAt: number | null;
  readonly missingSince: number | null;
}

/** What the DNS says about the record. After "unavailable", nothing is known and nothing changes. */
export type RecordState = "found" | "missing" | "unavailable";

export function recordName(domain: string): string {
  return `_postern-challenge.${domain}`;
}

export function recordValue({ token }: Pick<WorkspaceDomain, "token">): string {
  return `postern-domain-verification=${token}`;
}

/** Adding a domain again keeps its record. */
export async function addDomain(tx: Tx, act: Act, typed: string): Promise<void> {
  await authorize(tx, act, "sso.change");
  const domain = parseDomain(typed);
  if (domain === undefined)
    throw invalid("domain", "`domain` must be a domain name such as example.com.");
  if (isPublicMailDomain(domain))
    throw invalid(
      "domain",
      `${domain} gives addresses to anyone, so no workspace can have it. Add a domain of your organization.`,
    );
  const domains = await listDomains(tx, act.accountId);
  if (domains.some((own) => own.domain === domain)) return;
  if (domains.length >= DOMAINS_PER_WORKSPACE_MAX)
    throw new Fault("conflict", "too many domains", {
      message: `A workspace can have ${DOMAINS_PER_WORKSPACE_MAX} domains. Remove one first.`,
    });
  await tx.run(
    "insert into workspace_domain (account_id, domain, token, created_at) values (?, ?, ?, ?)",
    [act.accountId, domain, randomBase62(TOKEN_CHARACTERS), act.now],
  );
  await recordAuditEntry(tx, { ...act, action: "domain.added", target: domain });
}

/** Ends the sessions that began with an address in one of the domains. Does nothing if the workspace does not have it. */
export async function removeDomain(tx: Tx, act: Act, domain: string): Promise<void> {
  await authorize(tx, act, "sso.change");
  const removed = await tx.run("delete from workspace_domain where account_id = ? and domain = ?", [
    act.accountId,
    domain,
  ]);
  if (removed === 0) return;
  await endSsoSessions(tx, act.accountId, act.now);
  await recordAuditEntry(tx, { ...act, action: "domain.removed", target: domain });
}

export async function listDomains(
  reader: Reader,
  accountId: string,
): Promise<readonly WorkspaceDomain[]> {
  const rows = await reader.all(
    "select * from workspace_domain where account_id = ? order by domain",
    [accountId],
  );
  return rows.map(toDomain);
}

export async function getDomain(
  reader: Reader,
  accountId: string,
  domain: string,
): Promise<WorkspaceDomain> {
  const row = await reader.get(
    "select * from workspace_domain where account_id = ? and domain = ?",
    [accountId, domain],
  );
  if (row === undefined)
    throw new Fault("not_found", "no such domain", {
      message: "The workspace does not have this domain.",
    });
  return toDomain(row);
}

/** The workspace whose verified domain an email address is in. Subdomains do not count. */
export async function findWorkspaceOfEmail(
  reader: Reader,
  email: string,
): Promise<string | undefined> {
  const row = await reader.get(
    "select account_id from workspace_domain where verified_domain = ?",
    [domainOf(email) ?? ""],
  );
  return row && text(row, "account_id");
}

export async function queryRecord(
  resolveTxt: ResolveTxt,
  { domain, token }: Pick<WorkspaceDomain, "domain" | "token">,
): Promise<RecordState> {
  try {
    const texts = await resolveTxt(recordName(domain));
    return texts.some((found) => found.trim() === recordValue({ token })) ? "found" : "missing";
  } catch {
    return "unavailable";
  }
}

/** Verifies the domain, or counts how long its record is missing. Returns what is recorded now. */
export async function recordDomainCheck(
  tx: Tx,
  act: Act,
  { domain, state }: { readonly domain: string; readonly state: RecordState },
): Promise<WorkspaceDomain> {
  const { accountId, now } = act;
  await authorize(tx, act, "sso.change");
  await tx.lockMany("workspace_domain", "account_id, domain", [[accountId, domain]]);
  const before = await getDomain(tx, accountId, domain);
  const after = state === "unavailable" ? before : checked(before, state, now);
  if (before.verifiedAt === null && after.verifiedAt !== null) await requireFree(tx, before);
  await tx.run(
    `update workspace_domain set verified_at = ?, verified_domain = ?, missing_since = ?, checked_at = ?
     where account_id = ? and domain = ?`,
    [
      after.verifiedAt,
      after.verifiedAt === null ? null : domain,
      after.missingSince,
      now,
      accountId,
      domain,
    ],
  );
  if (before.verifiedAt === null && after.verifiedAt !== null)
    await recordAuditEntry(tx, { ...act, action: "domain.verified", target: domain });
  if (before.verifiedAt !== null && after.verifiedAt === null) {
    await endSsoSessions(tx, accountId, now);
    await recordAuditEntry(tx, { ...act, action: "domain.lost", target: domain });
  }
  return after;
}

function checked(
  domain: WorkspaceDomain,
  state: Exclude<RecordState, "unavailable">,
  now: number,
): WorkspaceDomain {
  if (state === "found")
    return { ...domain, verifiedAt: domain.verifiedAt ?? now, missingSince: null };
  if (domain.verifiedAt === null) return domain;
  const missingSince = domain.missingSince ?? now;
  return now - missingSince >= MISSING_GRACE_MS
    ? { ...domain, verifiedAt: null, missingSince: null }
    : { ...domain, missingSince };
}

async function requireFree(tx: Tx, { accountId, domain }: WorkspaceDomain): Promise<void> {
  const row = await tx.get(
    "select account_id from workspace_domain where verified_domain = ? and account_id <> ?",
    [domain, accountId],
  );
  if (row !== undefined)
    throw new Fault("conflict", "the domain is verified by another workspace", {
      message: `Another workspace has verified ${domain}. Remove it there. If you cannot, delete that workspace's TXT record: the domain is free ${MISSING_GRACE_MS / DAY_MS} days later.`,
    });
}

export interface DomainCheckDeps {
  readonly db: Db;
  readonly resolveTxt: ResolveTxt;
}

/** Queries the records of verified domains that were not queried for a day. */
export async function recheckDomains(
  { db, resolveTxt }: DomainCheckDeps,
  now: number,
): Promise<void> {
  const rows = await db.all(
    `select * from workspace_domain where verified_domain is not null and checked_at < ?
     order by checked_at limit ${RECHECKS_PER_RUN}`,
    [now - RECHECK_MS],
  );
  await Promise.all(
    rows.map(toDomain).map(async ({ accountId, domain, token }) => {
      const state = await queryRecord(resolveTxt, { domain, token });
      const act = {
        accountId,
        actor: { type: "system", id: "sso" },
        network: null,
        now,
      } as const;
      await db.write(async (tx) => {
        const isLive = await tx.get(
          "select domain from workspace_domain where account_id = ? and verified_domain = ? and token = ?",
          [accountId, domain, token],
        );
        if (isLive !== undefined) await recordDomainCheck(tx, act, { domain, state });
      });
    }),
  );
}

function toDomain(row: Row): WorkspaceDomain {
  return {
    accountId: text(row, "account_id"),
    domain: text(row, "domain"),
    token: text(row, "token"),
    verifiedAt: integerOrNull(row, "verified_at"),
    checkedAt: integerOrNull(row, "checked_at"),
    missingSince: integerOrNull(row, "missing_since"),
  };
}

// Domains whose email addresses belong to their users and not to one organization. A workspace cannot have them, even if
// it could write their DNS records.

const PUBLIC_MAIL_DOMAINS: ReadonlySet<string> = new Set(
  `aol.com bluewin.ch comcast.net duck.com fastmail.com free.fr gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.net
   googlemail.com hey.com hotmail.co.uk hotmail.com hotmail.de hotmail.fr icloud.com laposte.net live.com
   mac.com mail.com mail.ru mailbox.org me.com msn.com naver.com orange.fr outlook.com outlook.de pm.me
   posteo.de proton.me protonmail.com qq.com rediffmail.com rocketmail.com t-online.de tutanota.com tuta.io
   verizon.net web.de yahoo.co.jp yahoo.co.uk yahoo.com yahoo.de yahoo.fr yandex.com yandex.ru ymail.com
   zoho.com 126.com 163.com`.split(/\s+/),
);

function isPublicMailDomain(domain: string): boolean {
  return PUBLIC_MAIL_DOMAINS.has(domain);
}
