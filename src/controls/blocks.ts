// Networks and email domains that operators block while the gateway runs. It owns the table operator_block.

import { BlockList, isIP } from "node:net";
import { recordAuditEntry } from "../activity/audit.ts";
import { Fault, invalid } from "../base/fault.ts";
import { emailError, foldEmail } from "../base/text/email.ts";
import { enumValue, integer, lockByName, type Reader, text, type Tx } from "../store/db.ts";

export const BLOCK_KINDS = ["network", "email_domain"] as const;
export type BlockKind = (typeof BLOCK_KINDS)[number];

export interface Block {
  readonly kind: BlockKind;
  /** `203.0.113.0/24`, or `example.com`, which includes its subdomains. */
  readonly value: string;
  readonly reason: string;
  readonly createdBy: string;
  readonly createdAt: number;
}

export interface OperatorAct {
  readonly operator: string;
  readonly network: string | null;
  readonly now: number;
}

const BLOCKS_MAX = 1_000;
const IPV4_BITS_MIN = 8;
const IPV6_BITS_MIN = 16;

/** Does nothing if it is blocked already. */
export async function addBlock(
  tx: Tx,
  act: OperatorAct,
  { kind, value: typed, reason }: Pick<Block, "kind" | "value" | "reason">,
): Promise<void> {
  const value = kind === "network" ? parseNetwork(typed) : parseDomain(typed);
  await lockByName(tx, "operator_block");
  const [counted] = await tx.all("select count(*) as count from operator_block");
  if (counted !== undefined && integer(counted, "count") >= BLOCKS_MAX)
    throw new Fault("conflict", "too many blocks", {
      message: `At most ${BLOCKS_MAX} networks and domains can be blocked. Remove some first.`,
    });
  const added = await tx.run(
    `insert into operator_block (kind, value, reason, created_by, created_at) values (?, ?, ?, ?, ?)
     on conflict (kind, value) do nothing`,
    [kind, value, reason, act.operator, act.now],
  );
  if (added === 1) await auditBlock(tx, act, "block.added", { kind, value, reason });
}

export async function removeBlock(
  tx: Tx,
  act: OperatorAct,
  { kind, value }: Pick<Block, "kind" | "value">,
): Promise<void> {
  const removed = await tx.run("delete from operator_block where kind = ? and value = ?", [
    kind,
    value,
  ]);
  if (removed === 1) await auditBlock(tx, act, "block.removed", { kind, value });
}

async function auditBlock(
  tx: Tx,
  { operator, network, now }: OperatorAct,
  action: "block.added" | "block.removed",
  {
    value,
    ...detail
  }: { readonly kind: BlockKind; readonly value: string; readonly reason?: string },
): Promise<void> {
  const actor = { type: "operator", id: operator } as const;
  await recordAuditEntry(tx, {
    accountId: null,
    actor,
    action,
    target: value,
    detail,
    network,
    now,
  });
}

/** Newest first. */
export async function listBlocks(reader: Reader): Promise<readonly Block[]> {
  const rows = await reader.all("select * from operator_block order by created_at desc, value");
  return rows.map((row) => ({
    kind: enumValue(row, "kind", BLOCK_KINDS),
    value: text(row, "value"),
    reason: text(row, "reason"),
    createdBy: text(row, "created_by"),
    createdAt: integer(row, "created_at"),
  }));
}

/** Throws for an address at a blocked domain or a subdomain of one. */
export async function requireAllowedEmail(reader: Reader, email: string): Promise<void> {
  const labels = foldEmail(email).split("@").at(-1)?.split(".") ?? [];
  const domains = labels.map((_, index) => labels.slice(index).join("."));
  const marks = domains.map(() => "?").join(", ");
  const row = await reader.get(
    `select value from operator_block where kind = 'email_domain' and value in (${marks})`,
    domains,
  );
  if (row !== undefined)
    throw new Fault("forbidden", `blocked email domain ${text(row, "value")}`, {
      message: "This gateway accepts no email addresses of this domain. Use another address.",
      param: "email",
    });
}

/** The blocked networks as this process read them last; the handler asks for every request. */
export interface NetworkBlocks {
  readonly refresh: () => Promise<void>;
  /** Most gateways block none: then no address is read. */
  readonly isEmpty: () => boolean;
  readonly has: (address: string) => boolean;
}

export function createNetworkBlocks(reader: Reader): NetworkBlocks {
  let blocked = new BlockList();
  return {
    refresh: async () => {
      const next = new BlockList();
      for (const { kind, value } of await listBlocks(reader)) {
        if (kind !== "network") continue;
        const [network = "", bits] = value.split("/");
        next.addSubnet(network, Number(bits), isIP(network) === 6 ? "ipv6" : "ipv4");
      }
      blocked = next;
    },
    isEmpty: () => blocked.rules.length === 0,
    has: (address) =>
      isIP(address) !== 0 && blocked.check(address, isIP(address) === 6 ? "ipv6" : "ipv4"),
  };
}

function parseNetwork(typed: string): string {
  const [address = "", bitsText, ...rest] = typed.trim().toLowerCase().split("/");
  const version = isIP(address);
  const [most, least] = version === 6 ? [128, IPV6_BITS_MIN] : [32, IPV4_BITS_MIN];
  const bits = bitsText === undefined ? most : Number(bitsText);
  const isBits = bitsText === undefined || /^\d{1,3}$/.test(bitsText);
  if (version === 0 || rest.length > 0 || !isBits || bits < least || bits > most)
    throw invalid(
      "value",
      `Enter an IP address or a network such as 203.0.113.0/24 or 2001:db8::/32, with a prefix of at least /${IPV4_BITS_MIN} (IPv4) or /${IPV6_BITS_MIN} (IPv6).`,
    );
  return `${address}/${bits}`;
}

function parseDomain(typed: string): string {
  const domain = typed.trim().replace(/^@/, "");
  if (emailError(`a@${domain}`) !== undefined)
    throw invalid("value", "Enter a domain such as example.com.");
  return foldEmail(`a@${domain}`).slice(2);
}
