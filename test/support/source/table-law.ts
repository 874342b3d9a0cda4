// Which folder owns which table, and which tables the SQL of the source reads and writes. The columns `reads` of the import
// law and docs/storage-schema.md rest on it.

import { filesUnder, moduleOf, type SourceFile } from "./source-files.ts";

/** The folder that writes a table. Others may read it if READ_LAW lists its owner. */
export const TABLE_OWNERS: Readonly<Record<string, readonly string[]>> = {
  store: ["migration"],
  usage: [
    "usage_record",
    "refused_call",
    "usage_pending",
    "usage_rollup",
    "provider_hour",
    "credential_hour",
    "charge_hour",
    "usage_archive",
    "session_usage",
  ],
  ledger: ["wallet", "spender", "hold", "swept_hold", "transfer", "process", "agent_session"],
  idempotency: ["idempotent_answer"],
  activity: ["event", "audit", "audit_stream", "audit_stream_entry", "webhook", "webhook_delivery"],
  controls: ["operator_block", "operator_limit"],
  "service-levels": ["service_level", "service_credit"],
  people: ["person", "session"],
  accounts: [
    "account",
    "account_creation",
    "solved_challenge",
    "membership",
    "invitation",
    "response_storage",
    "billing_details",
  ],
  keys: ["api_key"],
  scim: ["scim_directory", "scim_user", "scim_group", "scim_group_member"],
  sso: ["workspace_domain", "sso_connection"],
  guardrails: ["guardrail"],
  "prompt-log": ["prompt_log"],
  sinks: ["sink", "sink_entry"],
  "mcp-servers": ["mcp_server"],
  presets: ["preset"],
  "provider-keys": ["provider_key"],
  claims: ["claim_attempt", "claim_count", "human_grant"],
  "device-login": ["device_login"],
  "mcp-sign-in": ["authorization_code"],
  email: ["email", "email_opt_out"],
  mcp: ["mcp_session"],
  billing: [
    "invoice",
    "invoice_series",
    "checkout",
    "payment",
    "payment_fact",
    "auto_top_up",
    "top_up",
    "payment_method",
    "agent_payment",
    "metered_payment",
  ],
  responses: ["stored_response", "stored_item", "stored_stream"],
  batches: ["batch", "batch_item", "provider_batch", "stored_file", "stored_file_part"],
  verification: ["ledger_checkpoint"],
  status: ["incident_update"],
  operator: ["operator_session", "operator_request", "open_circuits"],
  server: ["secret_check"],
  signing: ["signing_key"],
  "ledger-proofs": ["ledger_day", "ledger_proof_page"],
};

/** Says for every table what is erased of a closed account, so it writes the tables of others. */
export const ERASURE_FILE = "src/account-data/erasure.ts";

const OWNER_OF = new Map(
  Object.entries(TABLE_OWNERS).flatMap(([folder, tables]) =>
    tables.map((table) => [table, folder] as const),
  ),
);

export function ownerOf(table: string): string | undefined {
  return OWNER_OF.get(table);
}

/** The tables that the schema file creates. */
export function schemaTables(): readonly string[] {
  const [schema] = filesUnder("src/store/schema", /schema\.sql$/);
  const names = [...(schema?.text ?? "").matchAll(/^create table ([a-z_]+) \(/gm)];
  return [...names.map(([, name = ""]) => name), "migration"];
}

export interface TableAccess {
  readonly reads: ReadonlySet<string>;
  readonly writes: ReadonlySet<string>;
}

const COMMENT = /^\s*(?:\/\/|\/\*|\*).*$/gm;
const WRITTEN =
  /\b(?:insert into|delete from|lock table)\s+([a-z_]+)|\bupdate\s+([a-z_]+)\s+set\b|\b(?:insertMany|updateMany|deleteMany|deleteByKey)\(\s*"([a-z_]+)"/g;
const READ =
  /(?<!delete )\b(?:from|join)\s+(?:only\s+)?([a-z_]+)\b|\b(?:readMany|lockMany|lockByKey)\(\s*"([a-z_]+)"|\btable: "([a-z_]+)"/g;

/** By the text of the file without its comments: SQL in string literals, and the names that bulk statements get. */
export function tableAccess({ text }: SourceFile): TableAccess {
  const code = text.replaceAll(COMMENT, "");
  return { reads: tablesIn(code, READ), writes: tablesIn(code, WRITTEN) };
}

function tablesIn(code: string, pattern: RegExp): ReadonlySet<string> {
  const names = [...code.matchAll(pattern)].flatMap(([, ...groups]) =>
    groups.flatMap((name) => name ?? []),
  );
  return new Set(names.filter((name) => OWNER_OF.has(name)));
}

/** The folders that read or write each table, from the source. */
export function accessByTable(
  files: readonly SourceFile[],
  kind: keyof TableAccess,
): ReadonlyMap<string, ReadonlySet<string>> {
  const folders = new Map<string, Set<string>>();
  for (const file of files)
    for (const table of tableAccess(file)[kind])
      folders.set(table, (folders.get(table) ?? new Set()).add(moduleOf(file.path)));
  return folders;
}
